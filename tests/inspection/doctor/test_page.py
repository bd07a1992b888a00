import json
import re
from dataclasses import replace

import numpy as np
import pytest

from nnunet_dro.inspection.doctor.answer import Answer, conclude, loss_spread
from nnunet_dro.inspection.doctor.page import answer_lines, doctor_html
from nnunet_dro.nnunet.folders import Fold
from nnunet_dro.trainers.options import trainer_told_by
from tests.evaluation.report.made import HOSTILE
from tests.pages.drawn_dots import drawn_dots
from tests.pages.screen import screen

from .made_cases import around, cases

LEVEL = {"training": around(0.9, 60), "validation": around(0.88, 8)}
TABLES = {
    "Nothing fails": cases(a=LEVEL, b={"training": around(0.88, 10)}),
    "Hard to learn, still losing on training cases": cases(
        a=LEVEL, rare={"training": around(0.3, 8)}
    ),
    "Learnt, but not carried over": cases(
        a=LEVEL, rare={"training": around(0.9, 8), "validation": around(0.3, 6)}
    ),
    "A few outliers": cases(a={"training": [*around(0.9, 60), 0.1, 0.2]}),
    "Cannot tell, too few cases": cases(a={"training": around(0.9, 2)}),
}


def answer_of(
    table, folder, *, seed=0, n_patches=4, n_epochs=1000, column="site", noise=0.05
) -> Answer:
    """The answer for a table of Dice, with losses that follow the Dice."""
    rng = np.random.default_rng(seed)
    losses = {
        f"loss_{k + 1}": -table["dice_organ"] + noise * rng.normal(size=len(table))
        for k in range(n_patches)
    }
    path = folder / "Dataset001_X" / "nnUNetTrainer__nnUNetPlans__2d" / "fold_0"
    path.mkdir(parents=True, exist_ok=True)
    if n_patches == 0:
        rows = [f"0,{case},0.5,0.1,1\n" for case in table["case"]]
        (path / "hardness.csv").write_text("epoch,case,loss,probability,draws\n" + "".join(rows))
    measured = table.drop(columns="site").assign(
        seconds_patches=0.5, seconds_prediction=2.0, **losses
    )
    measured = measured.assign(hardness=measured.filter(like="loss_").mean(axis=1))
    strata = table[["site"]].set_axis([column], axis=1)
    return concluded(Fold.of(path), measured, strata, n_epochs=n_epochs)


def concluded(fold, measured, strata, *, n_epochs=1000, of_images=1.0, batch_size=2) -> Answer:
    """The answer where all images are of one kind, unless ``of_images`` says how often they come."""
    n_training = int((measured["set"] == "training").sum())
    return conclude(
        fold,
        measured,
        strata,
        "cases.csv",
        draws_of_images=np.ones(n_training) * of_images,
        length=(n_epochs, 250),
        trained_with="nnUNetTrainer",
        batch_size=batch_size,
    )


def printed(answer) -> str:
    return screen(answer_lines(answer), width=10_000)


@pytest.mark.parametrize("heading", TABLES)
def test_every_finding_has_its_words_and_one_patch_per_case_leaves_no_nan(tmp_path, heading):
    answer = answer_of(TABLES[heading], tmp_path, n_patches=1)
    text = printed(answer)

    assert text.splitlines()[0] == heading
    assert "between cases (standard deviation; 1 augmented patch of every training case)" in text

    page = doctor_html(answer)
    assert f"<h2>{heading}</h2>" in page
    assert "1 patch of a case" in page
    for words in (
        text,
        page.split("<section")[1],
        page.split('id="spread"')[1].split("</section>")[0],
    ):
        assert not re.search(r"\bnan\b", words, re.IGNORECASE)


def test_hard_strata_come_with_the_command_and_what_it_would_draw(tmp_path):
    answer = answer_of(TABLES["Hard to learn, still losing on training cases"], tmp_path)
    text = printed(answer)

    assert answer.trainer == "nnUNetTrainerDRO"
    assert "nnUNetv2_train Dataset001_X 2d 0 -tr nnUNetTrainerDRO\n" in text

    of_cases, of_draws = answer.share([f"rare_t{n:03d}" for n in range(8)])
    assert of_cases == pytest.approx(8 / 68)
    assert of_draws > 2 * of_cases
    assert (
        f"The stratum rare (site) gets {100 * of_draws:.0f} % of these draws, with 12 % of the cases."
        in text
    )

    answer = answer_of(
        TABLES["Hard to learn, still losing on training cases"], tmp_path, noise=np.nan
    )
    lines = printed(answer).splitlines()

    assert lines[2] == "Robust training is worth a try: nnUNetTrainerDRO."
    assert "-tr nnUNetTrainerDRO" in lines[3]
    assert "No finite loss was measured" in doctor_html(answer)

    text = printed(
        answer_of(TABLES["Hard to learn, still losing on training cases"], tmp_path, n_epochs=4)
    )
    assert text.startswith("Hard to learn")
    assert "Note: The training is short: 1,000 iterations" in text
    assert "nnUNetTrainerDRO_4epochs" in text

    answer = replace(
        answer,
        fold=replace(answer.fold, trainer=answer.trainer),
        trained_with=answer.trainer,
    )
    assert "This is nnUNetTrainerDRO already. Look at the hardest cases" in printed(answer)
    assert "nnUNetv2_train" not in printed(answer), "it would begin this very training anew"

    answer = answer_of(TABLES["A few outliers"], tmp_path)
    assert "nnunet-dro suspects" not in printed(answer)

    (answer.fold.folder / "hardness.csv").write_text("epoch,case,loss,probability,draws\n")
    assert "nnunet-dro suspects" in printed(answer_of(TABLES["A few outliers"], tmp_path))


def test_a_training_by_an_earlier_rule_of_its_name_is_no_robust_one_yet(tmp_path):
    answer = answer_of(TABLES["Hard to learn, still losing on training cases"], tmp_path)
    answer = replace(
        answer,
        fold=replace(answer.fold, trainer=answer.trainer),
        trained_with="nnUNetTrainerDRO_earned0.5",
    )

    text = printed(answer)

    assert "already" not in text
    assert "-tr nnUNetTrainerDRO\n" in text
    assert "to nnUNetTrainerDRO_earned0.5__nnUNetPlans__2d." in text, "it would be trained over"


def test_a_column_that_no_trainer_can_name_is_to_be_renamed(tmp_path):
    table = cases(a=LEVEL, rare={"training": around(0.05, 8)})
    text = printed(answer_of(table, tmp_path, column="share0.5"))

    assert "nnUNetTrainerIW_share0.5" not in text
    assert "(first rename the column `share0.5` of cases.csv, because no trainer's name" in text
    told = trainer_told_by("share0.5", is_complete=False)
    assert "in the column `share0.5` of cases.csv; then rename the column `share0.5`" in told


def test_a_column_that_lacks_an_entry_is_to_be_filled_in(tmp_path):
    answer = answer_of(cases(a=LEVEL, rare={"training": around(0.05, 8)}), tmp_path)
    filled = (
        "nnUNetTrainerIW_site (first fill in what is missing in the column `site` of cases.csv)"
    )
    incomplete = answer.strata.replace({"site": {"rare": "missing"}})

    assert filled not in printed(answer)
    assert filled in printed(replace(answer, strata=incomplete))


def test_where_the_default_ignores_the_hardest_it_is_not_recommended(tmp_path):
    table = cases(a=LEVEL, rare={"training": around(0.05, 8)})
    answer = answer_of(table, tmp_path)

    text = printed(answer)

    assert text.startswith("Hard to learn")
    assert (
        "With this network, nnUNetTrainerDRO would draw no case more often for being hard" in text
    )
    assert "nnUNetTrainerIW_site draws every group equally often." in text
    assert "worth a try" not in text
    assert "If they are neither, nnUNetTrainerDRO_share0.5 draws them" in text
    assert "-tr nnUNetTrainerDRO" not in text

    (answer.fold.folder / "hardness.csv").write_text("epoch,case,loss,probability,draws\n")
    assert "nnunet-dro suspects" in printed(answer_of(table, tmp_path))

    measured = answer.cases.drop(columns="share")
    times_as_often = np.where(answer.strata["site"] == "rare", 4.25, 34 / 60)[answer.is_training]
    rare = concluded(answer.fold, measured, answer.strata, of_images=times_as_often)
    assert "site) gets 46 % of these draws, with 12 % of the cases." in printed(rare), (
        "a rare kind of images is drawn more often though nothing is found of it"
    )
    # 8 of 34 places are those of the 8 cases, for cases of a batch are distinct.
    in_large_batches = concluded(
        answer.fold, measured, answer.strata, of_images=times_as_often, batch_size=34
    )
    assert "site) gets 24 % of these draws, with 12 % of the cases." in printed(in_large_batches)


def test_a_stratum_that_losses_do_not_show_is_to_be_told(tmp_path):
    """Hardness weighted sampling cannot draw what has no higher loss."""
    table = TABLES["Hard to learn, still losing on training cases"]
    blind = answer_of(table.assign(dice_organ=np.linspace(0.8, 0.9, len(table))), tmp_path)
    answer = answer_of(table, tmp_path)
    measured = answer.cases.drop(columns="share").assign(hardness=blind.cases["hardness"])

    answer = concluded(answer.fold, measured, answer.strata)

    assert "nnUNetTrainerIW_site" in printed(answer)


SHORT = "The training is short: 1,000 iterations, fewer than 5,000; nnU-Net's own trainings have 250,000."
LOW = "The median Dice of training cases is low (organ 55): the training is short or the labels are hard."


@pytest.mark.parametrize(
    ("dice", "n_epochs", "reason", "why"),
    [(0.9, 4, "the training is short", SHORT), (0.55, 1000, "little is learnt yet", LOW)],
)
def test_a_training_that_cannot_tell_says_why_and_to_train_longer(
    tmp_path, dice, n_epochs, reason, why
):
    table = cases(a={"training": around(dice, 30)}, b={"training": around(dice, 10)})
    lines = printed(answer_of(table, tmp_path, n_epochs=n_epochs)).splitlines()

    assert lines[:2] == [f"Cannot tell: {reason}", why]
    assert lines[2].startswith("Train longer")
    assert not any(
        "stay as it is" in line or line.startswith("Note: The training is short") for line in lines
    )


def test_a_stratum_that_is_a_little_lower_is_named(tmp_path):
    answer = answer_of(
        cases(a={"training": around(0.9, 40)}, b={"training": around(0.86, 15)}), tmp_path
    )
    text = printed(answer)

    assert text.startswith("Nothing fails")

    lower = "Lower by less: b (site), training cases, mean Dice of organ 86, where other training cases have 90 (p"
    assert lower in text
    assert "little to gain" in text
    assert "lower, by less than 10 points" in doctor_html(answer)


@pytest.mark.parametrize(
    "column", ["set", "case", "label", "share", "method", "metric", "n", "dice_organ", "loss_1"]
)
def test_strata_may_be_in_columns_that_the_doctor_has_itself(tmp_path, column):
    answer = answer_of(
        TABLES["Hard to learn, still losing on training cases"], tmp_path, column=column
    )
    assert f"The stratum rare ({column}) is behind on 8 cases" in printed(answer)
    assert f"{column}: rare" in doctor_html(answer).replace("<wbr>", "")


def test_only_the_cases_of_a_mean_are_counted(tmp_path):
    table = cases(
        a=LEVEL,
        rare={"training": around(0.3, 8)},
        new={"training": [0.9], "validation": around(0.2, 9)},
    )
    table.loc[table["case"].isin(["rare_t000", "rare_t007", "new_v000"]), "dice_organ"] = np.nan
    text = printed(answer_of(table, tmp_path))

    assert "rare (site) is behind on 6 cases of it that the network was trained on" in text
    assert "new (site): 8 validation cases with a mean Dice of organ of 2" in text


def test_a_figure_is_of_a_label_with_values_and_names_the_set_first(tmp_path):
    answer = answer_of(cases(**{"a" * 60: {"training": around(0.9, 12)}}), tmp_path)
    measured = answer.cases.drop(columns="share")
    measured.insert(2, "dice_absent", np.nan)
    page = doctor_html(concluded(answer.fold, measured, answer.strata))

    assert ">training: aaa" in page
    assert "Dice of other: every case" in page


def test_strata_are_in_their_natural_order_in_the_table_and_in_the_figure(tmp_path):
    sites = ("site10", "missing", "site2")
    answer = answer_of(cases(**{site: {"training": around(0.9, 12)} for site in sites}), tmp_path)
    page = doctor_html(answer)

    in_order = ["site2", "site10", "missing"]
    assert [stratum.name for stratum in answer.diagnosis.strata] == [*in_order, "all cases"]
    assert re.findall(r">training: (\w+)<", page) == in_order


def test_a_figure_says_that_only_the_worst_of_many_cases_are_drawn(tmp_path):
    said = "Of each row only the worst 400 are drawn"

    few, many = (
        doctor_html(answer_of(cases(a={"training": around(0.9, n)}), tmp_path)) for n in (400, 401)
    )

    assert said not in few
    assert said in many
    assert len(drawn_dots(many)) == 400


def test_without_patches_cases_are_sorted_by_draws_and_took_no_time(tmp_path):
    """The losses of hardness.csv are in no column of the table."""
    answer = answer_of(TABLES["Nothing fails"], tmp_path, n_patches=0)
    answer = replace(answer, cases=answer.cases.assign(seconds_patches=0.0))
    page = doctor_html(answer)

    data = json.loads(re.search(r'id="data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    assert data["columns"][data["sortedBy"]]["title"] == "Draws, times as often"
    assert "patches of a case" not in page
    assert "hardness.csv, the stale losses of the last third of its epochs" in page
    assert "Prediction of a case" in page


def test_two_cases_have_a_whole_spread_and_one_stratum_is_no_none_of_1(tmp_path):
    assert loss_spread([[1, 3], [2, 6]]).between == 1, "patches alone could make as much"

    answer = answer_of(cases(a=LEVEL), tmp_path)

    assert "No group of cases is 10 points of Dice or more below" in printed(answer)
    assert "at least, and all of it of two or three." in doctor_html(answer)


def test_the_page_has_every_rule(tmp_path):
    html = doctor_html(answer_of(TABLES["Nothing fails"], tmp_path))

    for finding in (*TABLES, "Small or faint"):
        assert finding.split(",")[0] in html


def test_labels_that_a_few_cases_lack_are_pointed_at(tmp_path):
    table = cases(a={"training": around(0.9, 20)})
    few = table.assign(voxels_organ=[0, 0, *[5] * 18])
    many = table.assign(voxels_organ=[0] * 5 + [5] * 15)

    text = printed(answer_of(few, tmp_path))

    assert (
        "Labels that most cases have are absent in some: organ in 2 cases (a_t000, a_t001)." in text
    )
    assert "or mark where it may be with nnU-Net's ignore label." in text
    for other in (many, table.assign(voxels_organ=5)):
        assert "absent in some" not in printed(answer_of(other, tmp_path))


def test_page_works_in_a_browser_with_any_names(tmp_path, open_page):
    table = TABLES["Hard to learn, still losing on training cases"].copy()
    table.loc[: len(HOSTILE) - 1, "case"] = list(HOSTILE)
    table["site"] = table["site"].replace("rare", HOSTILE[0])
    page = open_page(doctor_html(answer_of(table, tmp_path)))

    names = page.run(
        "return JSON.parse(document.querySelector('#data').textContent).columns[0].names"
    )

    assert set(HOSTILE) <= set(names)
    # The script parts the dots of a figure where a pointer comes.
    page.run(
        "document.querySelectorAll('svg.chart').forEach("
        "(chart) => chart.dispatchEvent(new PointerEvent('pointerover')))"
    )
    assert page.run("return document.querySelectorAll('.chart .dot').length") == len(table)

    page.check()
