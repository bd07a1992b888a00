import numpy as np
import pytest
from rich.console import Console

from nnunet_dro.doctor.answer import Answer, conclude
from nnunet_dro.doctor.inputs import Inputs
from nnunet_dro.doctor.page import doctor_html
from nnunet_dro.doctor.terminal import answer_lines
from nnunet_dro.nnunet.folders import Fold
from tests.evaluation.report.made import HOSTILE

from .made_cases import around, cases

LEVEL = {"training": around(0.9, 60), "validation": around(0.88, 8)}
TABLES = {
    "Nothing fails": cases(a=LEVEL, b={"training": around(0.88, 10)}),
    "Hard to learn, still losing on training cases": cases(a=LEVEL, rare={"training": around(0.3, 8)}),
    "Learnt, but not carried over": cases(a=LEVEL, rare={"training": around(0.9, 8), "validation": around(0.3, 6)}),
    "A few outliers": cases(a={"training": [*around(0.9, 60), 0.1, 0.2]}),
    "Cannot tell, too few cases": cases(a={"training": around(0.9, 2)}),
}


def answer_of(table, folder, *, seed=0) -> Answer:
    """The answer for a table of Dice, with losses that follow the Dice."""
    rng = np.random.default_rng(seed)
    losses = {f"loss_{k + 1}": -table["dice_organ"] + rng.normal(0, 0.05, len(table)) for k in range(4)}
    path = folder / "Dataset001_X" / "nnUNetTrainer__nnUNetPlans__2d" / "fold_0"
    path.mkdir(parents=True, exist_ok=True)
    fold = Fold.of(path)
    inputs = Inputs(fold, path / "checkpoint_final.pth", {}, {}, folder)
    measured = table.assign(seconds_patches=0.5, seconds_prediction=2.0, **losses)
    return conclude(inputs, measured, ("site",), "cases.csv", history=None, length=(1000, 250))


def printed(answer) -> str:
    console = Console(width=10_000)
    with console.capture() as capture:
        console.print(answer_lines(answer))
    return capture.get()


@pytest.mark.parametrize("heading", TABLES)
def test_every_finding_has_its_words(tmp_path, heading):
    answer = answer_of(TABLES[heading], tmp_path)
    assert printed(answer).splitlines()[0] == heading
    assert f"<h2>{heading}</h2>" in doctor_html(answer)


def test_hard_strata_come_with_the_command_and_their_share_of_the_draws(tmp_path):
    answer = answer_of(TABLES["Hard to learn, still losing on training cases"], tmp_path)
    text = printed(answer)
    assert f"nnUNetv2_train Dataset001_X 2d 0 -tr {answer.trainer}" in text
    of_cases, of_draws = answer.share([f"rare_t{n:03d}" for n in range(8)])
    assert of_cases == pytest.approx(8 / 68)
    assert of_draws > 2 * of_cases
    assert f"The stratum rare (site) gets {100 * of_draws:.0f} % of these draws, with 12 % of the cases." in text


def test_suspects_are_named_where_a_log_can_rank_them(tmp_path):
    answer = answer_of(TABLES["A few outliers"], tmp_path)
    assert "nnunet-dro suspects" not in printed(answer)
    (answer.fold.folder / "hardness.csv").write_text("epoch,case,loss,probability,draws\n")
    assert "nnunet-dro suspects" in printed(answer_of(TABLES["A few outliers"], tmp_path))


def test_a_stratum_that_losses_do_not_show_is_to_be_told(tmp_path):
    """Hardness weighted sampling cannot draw what has no higher loss."""
    table = TABLES["Hard to learn, still losing on training cases"]
    blind = answer_of(table.assign(dice_organ=np.linspace(0.8, 0.9, len(table))), tmp_path)
    losses = blind.cases.filter(like="loss_")
    answer = answer_of(table, tmp_path)
    measured = answer.cases.drop(columns="share").assign(**losses)
    inputs = Inputs(answer.fold, tmp_path, {}, {}, tmp_path)
    answer = conclude(inputs, measured, ("site",), "cases.csv", history=None, length=(1000, 250))
    assert "nnUNetTrainerIW_site" in printed(answer)


def test_page_works_in_a_browser_with_any_names(tmp_path, open_page):
    table = TABLES["Hard to learn, still losing on training cases"].copy()
    table.loc[: len(HOSTILE) - 1, "case"] = list(HOSTILE)
    table["site"] = table["site"].replace("rare", HOSTILE[0])
    page = open_page(doctor_html(answer_of(table, tmp_path)))
    assert set(HOSTILE) <= {
        *page.run("return JSON.parse(document.querySelector('#data').textContent).columns[0].names")
    }
    assert page.run("return document.querySelectorAll('.dot').length") == len(table)
    assert page.run("return window.hurt === undefined")
    assert page.run("return document.documentElement.scrollWidth <= window.innerWidth")
    assert page.requests() == []
    assert page.errors() == []
