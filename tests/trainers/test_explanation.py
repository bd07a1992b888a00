from types import SimpleNamespace

import pytest
from rich.console import Console

from nnunet_dro.commands.completion import complete_column, complete_trainer
from nnunet_dro.trainers.options import GroupOptions
from nnunet_dro.trainers.overview import explain, trainer_overview
from nnunet_dro.trainers.registry import TRAINERS


def test_the_table_of_options_has_room_for_sentences_in_80_columns():
    console = Console(width=80)
    with console.capture() as capture:
        console.print(trainer_overview())
    text = capture.get()

    assert "Moves a part d of the draws to" in text
    assert max(map(len, text.splitlines())) == 80


def test_a_name_is_explained_option_by_option():
    text = "\n".join(explain("nnUNetTrainerHWS_beta10_noIS_20epochs"))
    assert "beta10 (x = 10): Draws a case" in text
    assert "noIS: Turns the importance weights" in text
    assert "20epochs: Number of epochs." in text
    assert text.endswith("-tr nnUNetTrainerHWS_beta10_noIS_20epochs")
    assert {"hardest0.2", "rare8", "memory0.9", "1000epochs"} <= set(
        defaults_of("nnUNetTrainerDRO")
    )
    assert "share0.5" not in defaults_of("nnUNetTrainerDRO_beta10"), (
        "a fixed beta takes the place of the share"
    )
    assert "memory0.9" not in defaults_of("nnUNetTrainerHWS"), (
        "its hardness is the loss of one patch"
    )
    assert "beta100" in defaults_of("nnUNetTrainerDRO_chi2")
    assert "beta100" not in defaults_of("nnUNetTrainerDRO_betaauto_chi2"), "it is estimated"
    assert "earned0.5" in defaults_of("nnUNetTrainerDRO_IS")
    assert "earned0.5" not in defaults_of("nnUNetTrainerDRO_share0.5_IS")
    assert "clip0.1to10" in defaults_of("nnUNetTrainerDRO_share0.5_IS")
    assert "clip0.1to10" not in defaults_of("nnUNetTrainerDRO"), "it has no weights to clip"


@pytest.mark.parametrize(
    ("name", "explained"),
    [
        ("HWS_cvar0.5", "cvar0.5 (a = 0.5): Draws only from the hardest share a of"),
        ("HWS_clip0.5to2", "clip0.5to2: Smallest and"),
        ("HWS_sub2x1x1", "sub2x1x1: Divides each case into a grid"),
    ],
)
def test_letters_that_the_words_use_have_their_value(name, explained):
    assert f"  {explained}" in "\n".join(explain(f"nnUNetTrainer{name}"))


def defaults_of(name):
    line = next(line for line in explain(name) if line.startswith("What it leaves out"))
    return line.removesuffix(".").split(": ")[1].split(", ")


@pytest.mark.parametrize("name", TRAINERS)
def test_every_trainer_can_be_explained(name):
    column = "_centre" if isinstance(TRAINERS[name].options, GroupOptions) else ""
    assert explain(name + column)[1].startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nnUNetTrainerDR0", "Did you mean nnUNetTrainerDRO?"),
        ("nnUNetTrainerGroupDR0_centre", "Did you mean nnUNetTrainerGroupDRO?"),
        ("resnet", "`nnunet-dro trainers` lists them"),
        ("nnUNetTrainerDRO_betta10", "Did you mean beta<x>?"),
        ("nnUNetTrainerDRO_20epoch", "Did you mean <n>epochs?"),
        ("nnUNetTrainerIW", "column"),
    ],
)
def test_a_wrong_name_meets_the_nearest_right_one(name, message):
    with pytest.raises(ValueError, match=name) as error:
        explain(name)
    assert message in str(error.value)


def words(incomplete):
    return [word for word, _ in complete_trainer(incomplete)]


def test_the_shell_completes_the_trainers():
    assert words("") == sorted(TRAINERS)
    assert words("nnUNetTrainerGr") == ["nnUNetTrainerGroupDRO"]
    assert "nnUNetTrainerDRO_beta10_share" not in words("nnUNetTrainerDRO_beta10_"), (
        "the order of names is fixed"
    )
    assert words("nnUNetTrainerDRO_beta10_20") == [
        "nnUNetTrainerDRO_beta10_20epochs",
        "nnUNetTrainerDRO_beta10_20iters",
    ]
    assert words("nnUNetTrainerIW_") == [], "the column is not known"


@pytest.mark.parametrize("name", TRAINERS)
def test_the_shell_offers_the_options_of_the_trainer_and_no_others(name):
    kind = type(TRAINERS[name].options)
    start = f"{name}_centre_" if issubclass(kind, GroupOptions) else f"{name}_"

    offered = [word.removeprefix(start) for word in words(start)]

    assert offered == [
        option.form.partition("<")[0] for option in kind.known_options() if option.form[0] != "<"
    ]


def test_the_shell_completes_columns(tmp_path):
    (tmp_path / "cases.csv").write_text("case,centre,centre_2,age\na,A,B,3\n")
    context = SimpleNamespace(params={"cases": tmp_path / "cases.csv"})

    assert complete_column(context, "cen") == ["centre", "centre_2"]
    assert complete_column(context, "centre,a") == ["centre,age"]

    context.params = {"cases": tmp_path / "absent.csv"}
    assert complete_column(context, "cen") == []

    context.params = {"reference": tmp_path / "labelsTs"}
    assert complete_column(context, "a") == ["age"]

    context.params = {}
    assert complete_column(context, "cen") == []
