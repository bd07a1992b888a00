import json
import re

import pytest

from tests.commands import refused, run
from tests.tuning.conftest import BETA


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "`--option` must be given at least once"),
        ((*BETA, "--trials", "0"), "value for '--trials'"),
        ((*BETA, "--repeat", "-1"), "value for '--repeat'"),
        ((*BETA, "--epochs", "0"), "`--epochs` must be a number >= 1"),
        ((*BETA, "--objective", "best"), "`--objective` must begin with a statistic, got 'best'"),
        ((*BETA, "--objective", "p10 by scanner worst"), "got 'scanner'. Choose from: centre"),
        (
            (*BETA, "--cases", "nowhere.csv", "--objective", "p10 by centre worst"),
            "got 'nowhere.csv', which does not",
        ),
        ((*BETA, "-p", "nnUNetResEnc"), "nnUNetResEnc.json"),
        ((*BETA, "--study", "a/b"), "`--study` must be usable as the name of a folder"),
    ],
)
def test_bad_input_is_one_line_before_anything_is_trained(fake, tune, options, message):
    refused(tune(*options, code=2), message)
    assert not fake.calls
    assert not fake.results.exists()


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("8 2d 0", ["got '8', which does not exist. Choose from: Dataset007_Fake"]),
        ("Dataset007_Other 2d 0", ["Choose from: Dataset007_Fake"]),
        ("7 3d_lowres 0", ["`configuration` must be in", "Choose from: 2d, 3d_fullres"]),
        ("7 2d first", ["`fold` must be a number or all, got 'first'"]),
    ],
)
def test_dataset_configuration_and_fold_must_be_there(fake, where, words):
    refused(run("tune", *where.split(), "--trainer", "HWS", *BETA), *words)


@pytest.mark.parametrize("variable", ["nnUNet_preprocessed", "nnUNet_results"])
def test_variables_of_nnunet_must_be_set(tune, monkeypatch, variable):
    monkeypatch.delenv(variable)
    refused(
        tune(*BETA, code=2), f"`{variable}` must be set in the environment", f"export {variable}="
    )


def test_results_that_cannot_be_written_are_told_before(fake, tune, monkeypatch):
    monkeypatch.setattr("nnunet_dro.files.output_folder._takes_files", lambda _: False)
    refused(tune(*BETA, code=2), "`nnUNet_results` must be writable")
    (fake.root / "results").rmdir()
    (fake.root / "results").write_text("a file")
    refused(tune(*BETA, code=2), "`nnUNet_results` must be a folder")


def test_another_table_and_metric_can_be_named_if_it_has_every_case(fake, tune, tmp_path):
    table = tmp_path / "some.csv"
    table.write_text("case,scanner\na1,x\na2,y\nb1,x\n")
    words = (*BETA, "--cases", table, "--objective", "min of iou by scanner mean", "--trials", "1")
    refused(tune(*words, code=2), "got none for b2")
    table.write_text(table.read_text() + "b2,y\n")
    tune(*words)

    row = fake.trials().iloc[0]

    # In centre b, half of what is found; it has a case in each scanner's stratum.
    assert row["value"] == pytest.approx((round(100 - abs(row["beta"] - 50)) // 2) / 100)


def test_page_holds_everything_and_says_what_is_left_out(fake, tune):
    tune(*BETA, "--option", "warmup:0:3", "--trials", "1", "--study", "one")
    tune(*BETA, "--option", "warmup:0:3", "--trials", "4", "--study", "four")

    one, four = (fake.page(name) for name in ("one", "four"))

    for page in (one, four):
        assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=(?!\"data:)", page)
        assert page.count("plotly.js v") == 1, "the library is there once"
    assert (
        "Importance: left out because it needs two trials that differ in options and objective."
        in one
    )
    assert "Pairs of options: left out" in one
    assert "<h2>Importance</h2>" not in one
    assert "left out" not in four
    assert re.findall("<h2>(.*)</h2>", four) == [
        *("The best", "History", "Importance", "Options", "Pairs of options", "Trainings"),
        "Trials",
    ]

    best = fake.trials("four").sort_values("value")["trainer"].iloc[-1]
    model = f"-d Dataset007_Fake -c 2d -f 0 -tr {best}"

    assert f'<pre class="command">nnUNetv2_predict -i INPUT -o OUTPUT {model}</pre>' in four


def test_best_of_what_is_minimised_is_the_smallest(fake, tune):
    result = tune(*BETA, "--trials", "4", "--objective", "mean of assd")
    trials = fake.trials()

    assert result.stdout.splitlines()[-1] == trials.loc[trials["value"].idxmin(), "trainer"]


def test_fold_that_nnunet_has_not_divided_yet_is_checked_with_all_cases(fake):
    from nnunet_dro.nnunet.training import find_target

    target = find_target("Dataset007_Fake", "2d", "0", plans="nnUNetPlans")

    every = ["a1", "a2", "a3", "b1", "b2", "b3"]

    assert target.validation_cases() == ["a1", "a2", "b1", "b2"]
    assert find_target("7", "2d", "3", plans="nnUNetPlans").validation_cases() == every
    assert find_target("7", "2d", "all", plans="nnUNetPlans").validation_cases() == every

    (fake.preprocessed / "splits_final.json").write_text(json.dumps({"fold": 1}))
    with pytest.raises(ValueError, match=r"splits_final\.json"):
        target.validation_cases()

    (fake.preprocessed / "splits_final.json").unlink()
    assert target.validation_cases() == every
