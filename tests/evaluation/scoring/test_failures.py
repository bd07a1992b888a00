"""Labels that were missed or invented count: in tables, requirements and comparisons."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation.comparing.comparison import compare
from nnunet_dro.evaluation.evaluating.read_results import read_evaluation
from nnunet_dro.evaluation.judging.outcomes import check_requirements
from nnunet_dro.evaluation.judging.requirements import parse_requirement
from nnunet_dro.evaluation.scoring.failures import Failure
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.significance import wilcoxon_p
from nnunet_dro.evaluation.statistics.stratum_statistics import false_positives, summarise
from nnunet_dro.evaluation.statistics.worst_strata import worst_strata
from tests.commands import done, run
from tests.evaluation import made_folders as made

NAN = float("nan")
REQUIREMENT = "metric=hd95 label=tumour p75<=4"


@pytest.fixture
def failures(tmp_path):
    """Ten cases; the tumour of two is missed, the last has none in the reference but one in the
    prediction."""
    made.write_study(tmp_path, [0] * 10)
    for file in (
        "prediction/case_00.nii.gz",
        "prediction/case_01.nii.gz",
        "reference/case_09.nii.gz",
    ):
        made.write_map(tmp_path / file, made.bars(0))
    return tmp_path


def row_of(folder, metric="hd95"):
    return made.strata_of(folder, metric=metric).iloc[0]


def test_a_distance_that_leaves_out_missed_labels_meets_no_requirement(failures):
    result = done(
        made.run_evaluate(failures, "--metrics", "dice,hd95", "--require", REQUIREMENT), 3
    )

    (line,) = [line for line in result.output.splitlines() if "requirement not met:" in line]

    assert "p75 0.000 mm is <= 4 (7 of 10 cases with a value)" in line
    assert (
        "leaves out 2 cases in which the label was missed (allow that with n_missed<=2, or" in line
    )
    assert "leaves out 1 case in which the label was predicted where the reference lacks it" in line

    counts = ["n", "n_undefined", "n_missed", "n_invented", "n_left_out"]
    assert row_of(failures / "out")[counts].tolist() == [10, 3, 2, 1, 3]
    assert row_of(failures / "out", "dice")[counts].tolist() == [10, 0, 2, 1, 0]


def test_a_distance_at_the_bound_does_not_fail_by_rounding():
    distances = np.array([3 * 0.1, 0.3001])

    assert Failure.of("hd95>0.3").of_cases(distances, {}).tolist() == [0, 1]
    assert Failure.of("hd95>=0.3").of_cases(distances, {}).tolist() == [1, 1]


@pytest.mark.parametrize("text", ["absolute_volume_error>1e-05", "dice<0.9999999", "hd95>20"])
def test_no_digit_of_a_bound_is_lost(text):
    assert str(Failure.of(text)) == text


def test_the_diagonal_of_the_image_is_the_distance_of_a_failure(failures):
    result = done(
        made.run_evaluate(
            failures, "--metrics", "hd95", "--require", REQUIREMENT, "--empty", "diagonal"
        ),
        3,
    )
    # Three of ten cases have the diagonal of 8 x 8 x 8 voxels of 1 mm; p75 lies between the 7th
    # case and the 8th.
    assert row_of(failures / "out")["p75"] == pytest.approx(0.75 * 7 * 3**0.5)
    assert "p75 9.093 mm is not <= 4 (10 cases)" in result.output


def test_every_report_counts_failures_in_its_table(failures):
    result = made.run_evaluate(failures, "--metrics", "dice,hd95")

    rows = {
        "report.html": 'failed minor"><b>2</b></td><td class="num failed minor"><b>1</b></td>',
        # The organ was never missed, but its row has the columns of the table.
        "report.md": "| organ | 10 | 0 | 0 | 0.0 |",
        "report.tex": r"tumour & out & \withbelow{10}{3 undef.} & 2 & 1 & 0.0\textsuperscript{\textdaggerdbl}",
        "terminal": "0.0‡",
    }

    texts = {
        name: (failures / "out" / name).read_text(encoding="utf-8")
        for name in rows
        if name != "terminal"
    }

    assert "| tumour | 10 (3 undef.) | 2 | 1 | 0.0‡" in texts["report.md"]
    for name, text in (texts | {"terminal": result.output}).items():
        assert rows[name] in text.replace("prediction", "out"), name
        assert "Without missed or invented labels that have no value" in text.replace("\n", " ")


def scores_of(values, n_reference, n_prediction, metric="hd95"):
    cases = [f"c{n}" for n in range(len(values))]
    table = {
        "case": cases,
        "label": "tumour",
        metric: values,
        "n_reference": n_reference,
        "n_prediction": n_prediction,
    }
    return pd.DataFrame(table).assign(prediction_ml=1.0)


#: Two distances and a missed label; and values, voxels of the reference and of the prediction of
#: other cases.
MISSED = ([1.0, 2.0, NAN], [5, 5, 5], [5, 5, 0])
IN_NEITHER = ([1.0, 2.0, NAN], [5, 5, 0], [5, 5, 0])
INVENTED = ([1.0, 0.0, NAN], [5, 5, 0], [5, 0, 5])


@pytest.mark.parametrize(
    ("cases", "text", "passed"),
    [
        (MISSED, "metric=hd95 mean<=4", False),
        (MISSED, "metric=hd95 mean<=4 n_missed<=1", True),
        (MISSED, "metric=hd95 n_missed<=1 mean<=4", True),
        (MISSED, "metric=hd95 mean<=4 n_missed<=0", False),
        (MISSED, "metric=hd95 mean<=4 n_invented<=5", False),
        (MISSED, "metric=hd95 mean<=1 n_missed<=1", False),
        (MISSED, "metric=hd95 n_missed<=1", True),
        (MISSED, "metric=hd95 n_missed<1", False),
        (MISSED, "metric=hd95 n_left_out<=1 n_missed<=1", True),
        (MISSED, "metric=hd95 n>=2", True),
        (MISSED, "metric=hd95 n>=3", False),
        # A label that both lack is no failure.
        (IN_NEITHER, "metric=hd95 mean<=4", True),
        # Sensitivity leaves out invented labels only.
        (INVENTED, "metric=sensitivity mean>=0.5", False),
        (INVENTED, "metric=sensitivity mean>=0.5 n_invented<=1", True),
        # Dice of a missed label is 0, and hides nothing.
        (([1.0, 0.9, 0.0], *MISSED[1:]), "metric=dice median>=0.9", True),
    ],
)
def test_what_a_metric_leaves_out_fails_unless_it_is_allowed(cases, text, passed):
    metric = text.split()[0].removeprefix("metric=")
    strata = summarise(scores_of(*cases, metric), metrics=[metric], n_resamples=0)

    assert check_requirements(strata, [parse_requirement(text)])[0].passed is passed


def evaluation_of(scores, metric="hd95"):
    of_case = pd.Series(
        pd.Categorical(["all"] * len(scores), ordered=True), index=scores["case"], name="all"
    )
    table = summarise(scores, {"all": of_case}, metrics=[metric], n_resamples=0)
    return Evaluation(
        "m", scores, table, {"all": of_case}, worst_strata(table), false_positives(scores)
    )


def compare_two(before, after, metric="hd95"):
    return compare(
        {"ERM": evaluation_of(before, metric), "DRO": evaluation_of(after, metric)}, n_resamples=0
    )


def test_a_method_that_misses_the_label_is_not_better_for_it():
    before = scores_of([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 30.0], [5] * 8, [5] * 8)
    # A little better everywhere, but the worst case is missed.
    after = scores_of([0.9, 1.9, 2.9, 3.9, 4.9, 5.9, 6.9, NAN], [5] * 8, [5] * 7 + [0])

    comparison = compare_two(before, after)

    row = comparison.table.iloc[0]

    # Missed counts as 30 mm, the largest distance of any method, instead of being left out.
    assert (row["n"], row["n_undefined"], row["n_worst_baseline"], row["n_worst_method"]) == (
        8,
        0,
        0,
        1,
    )
    assert row["mean_difference"] == pytest.approx(-0.7 / 8)
    assert row["max_method"] == 30
    assert (row["wins"], row["ties"], row["losses"]) == (7, 0, 1)
    # The failure has the largest rank; the seven gains are equal.
    assert row["wilcoxon_p"] == wilcoxon_p(np.append(np.full(7, -0.1), 99.0))

    (note,) = [note for note in comparison.notes if "one method only" in note]
    assert "missed or invented the label and counts as the largest distance" in note
    assert "DRO in c7 (tumour)" in note
    assert comparison.strata.set_index("method").loc[
        "DRO", ["n_missed", "n_left_out", "max"]
    ].tolist() == [1, 0, 30]


def test_a_patient_whose_mean_is_better_in_spite_of_a_failure_is_a_gain():
    before = scores_of([90.0, 80.0, 10.0, 5.0, 90.0], [5] * 5, [5] * 5)
    # A case of each patient is missed, which counts as 90 mm, the largest distance.
    after = scores_of([1.0, 1.0, NAN, 1.0, NAN], [5] * 5, [5, 5, 0, 5, 0])
    patients = ["outweighs"] * 3 + ["as bad"] * 2
    evaluations = {}
    for name, scores in (("ERM", before), ("DRO", after)):
        made_of_cases = evaluation_of(scores.assign(patient=patients))
        evaluations[name] = replace(made_of_cases, about={"options": {"patient": "patient"}})

    row = compare(evaluations, n_resamples=0).table.iloc[0]

    assert row["mean_difference"] == pytest.approx(((92 - 180) / 3 + (91 - 95) / 2) / 2)
    assert (row["wins"], row["ties"], row["losses"]) == (2, 0, 0)

    # In the worst of its cases, the second patient is as bad by both, and a failure decides.
    evaluations["ERM"].about["options"]["patient_score"] = "worst"
    row = compare(evaluations, n_resamples=0).table.iloc[0]
    assert row["mean_difference"] == 0
    assert (row["wins"], row["ties"], row["losses"]) == (0, 0, 2)


@pytest.mark.parametrize(
    ("metric", "both", "invented", "means"),
    [("dice", 0.5, 0.0, [0.75, 0.25]), ("hd95", 9.0, NAN, [4.5, 9.0])],
)
def test_an_invented_label_counts_against_the_method_that_invented_it(
    metric, both, invented, means
):
    before = scores_of([both, NAN], [5, 0], [5, 0], metric)

    comparison = compare_two(
        before,
        scores_of([both, invented], [5, 0], [5, 4], metric),
        metric,
    )

    row = comparison.table.iloc[0]

    assert row[["mean_baseline", "mean_method"]].tolist() == means
    assert (row["n_undefined"], row["losses"]) == (0, 1)

    best = {"dice": "1", "hd95": "0 mm"}[metric]
    assert f"rightly left out the label and counts as {best}: ERM in c1 (tumour)" in " ".join(
        comparison.notes
    )


def test_pairs_that_both_methods_fail_are_left_out():
    before, after = (scores_of([2.0, NAN], [5, 5], [5, 0]) for _ in range(2))
    row = compare_two(before, after).table.iloc[0]

    assert row[
        ["n_undefined", "n_left_out", "n_worst_baseline", "n_worst_method", "ties"]
    ].tolist() == [1, 1, 0, 0, 1]

    # A label that neither reference nor prediction has is no failure.
    right = compare_two(*(scores_of([2.0, NAN], [5, 0], [5, 0]) for _ in range(2)))
    assert right.table[["n_undefined", "n_left_out"]].to_numpy().tolist() == [[1, 0]]

    # Where no method has a distance, that of an invented label is no riddle, and no pair.
    none = compare_two(scores_of([NAN], [0], [0]), scores_of([NAN], [0], [4]))
    assert "one method only" not in " ".join(none.notes)


def test_reports_of_a_comparison_say_what_counts_as_the_worst(failures):
    both = made.evaluate_both(failures, (1, 1), "--metrics", "hd95")
    result = done(run("compare", *both, "-o", failures / "both", "--bootstrap", 10))

    for name in ("report.html", "report.md"):
        assert "2 as worst" in (failures / "both" / name).read_text(encoding="utf-8")
    assert "2 as worst" in result.output


def test_methods_fail_as_often_as_the_comparison_says(tmp_path):
    """A missed label is a failure by distance, too, whatever distance fills it in."""
    evaluations = {}
    for method, shift in (("old", 0), ("new", 1)):
        folder = tmp_path / method
        made.write_study(folder, [shift] * 8)
        if method == "new":
            made.write_map(folder / "prediction/case_00.nii.gz", made.bars(0))
        done(made.run_evaluate(folder, "--metrics", "dice,hd95", "--failure", "hd95>20"))
        evaluations[method] = read_evaluation(folder / "out")

    comparison = compare(evaluations, n_resamples=0)

    places = {"metric": "hd95", "label": "tumour"}
    change = comparison.table.loc[(comparison.table[list(places)] == places).all(axis=1)]
    strata = comparison.strata.loc[(comparison.strata[list(places)] == places).all(axis=1)]
    assert change["n_failed_method"].tolist() == [1]
    assert strata.set_index("method")["n_failed"].to_dict() == {"old": 0, "new": 1}
