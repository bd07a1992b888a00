"""Lesions at the command line: files, strata, requirements, reports, comparisons and bad input."""

import math
import shutil

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation.evaluating.read_results import read_evaluation
from nnunet_dro.evaluation.evaluating.result_files import evaluation_files
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.lesion_sizes import lesion_sizes
from tests.commands import done, run
from tests.evaluation import made_folders as made

LESION_FILES = sorted([*made.EVALUATION_FILES, "lesion_sizes.csv", "lesions.csv"])


def spots(*sizes, organ=2):
    """A map of 8 x 8 x 20 voxels with a tumour of so many voxels (at most 20) in every second row,
    and an organ."""
    values = np.zeros((8, 8, 20), np.uint8)
    for place, size in enumerate(sizes):
        values[2 * (place // 4), 2 * (place % 4), :size] = 1
    values[7, 7, :organ] = 2
    return values


def write_pairs(root, references, predictions):
    for n, pair in enumerate(zip(references, predictions, strict=True)):
        made.write_pair(root, f"case_{n:02}.nii.gz", *pair, spacing=(1.0, 1.0, 2.0))
    made.write_dataset_json(root / "reference")
    return root


@pytest.fixture
def study(tmp_path):
    """Four cases: all found; the small one missed; all missed; no lesion, and one invented."""
    return write_pairs(
        tmp_path,
        [spots(12, 4)] * 3 + [spots()],
        [spots(12, 4), spots(12), spots(), spots(0, 0, 0, 5)],
    )


@pytest.fixture
def uncounted(tmp_path):
    """Six cases with a lesion that is counted and one of 8 mm3 that is not; in four only the latter
    was predicted.

    In a seventh case the reference has only one that is not counted, and another was predicted
    beside it.
    """
    references = [spots(12, 4)] * 6 + [spots(0, 4)]
    return write_pairs(
        tmp_path, references, [spots(12, 4)] * 2 + [spots(0, 4)] * 4 + [spots(12, 4)]
    )


EVERY_LESION_METRIC = [name for name, metric in METRICS.items() if metric.on_lesions]


def test_without_instances_nothing_is_on_lesions_nor_left_of_earlier_runs(study):
    assert made.run_evaluate(study, "--instances", "tumour").exit_code == 0

    (study / "out" / "cases.html").write_text("A viewer of the earlier scores.")
    (study / "out" / "notes.txt").write_text("mine")
    done(made.run_evaluate(study, "--overwrite"))

    assert made.names_in(study / "out") == sorted([*made.EVALUATION_FILES, "notes.txt"])
    assert 'id="lesions"' not in (study / "out" / "report.html").read_text()
    assert not [
        column for column in made.scores_of(study / "out").columns if column.startswith("lesion")
    ]


def test_lesions_have_a_row_each_and_a_table_by_volume(study):
    done(made.run_evaluate(study, "--instances", "tumour"))

    assert made.names_in(study / "out") == LESION_FILES

    lesions = made.read_csv(study / "out" / "lesions.csv")
    assert list(lesions.columns) == [
        *("case", "label", "of", "lesion", "counted", "n_voxels", "volume_mm3", "x", "y", "z"),
        *("matched", "matched_with", "iou", "dice"),
    ]

    of_case = lesions[lesions["case"] == "case_01"].drop(columns=["case", "label", "counted"])
    assert of_case.astype(object).where(of_case.notna(), "").to_numpy().tolist() == [
        ["reference", 1, 12, 24.0, 6, 0, 0, True, 1, 1.0, 1.0],
        ["reference", 2, 4, 8.0, 2, 2, 0, False, "", 0.0, 0.0],
        ["prediction", 1, 12, 24.0, 6, 0, 0, True, 1, "", ""],
    ]
    assert lesions.groupby("of").size().to_dict() == {"prediction": 4, "reference": 6}

    sizes = made.read_csv(study / "out" / "lesion_sizes.csv")
    assert sizes[
        ["volume", "n_lesions", "n_cases", "n_found", "n_invented", "recall"]
    ].to_numpy().tolist() == [
        ["0 to 10", 3, 3, 1, 0, pytest.approx(1 / 3)],
        ["10 to 100", 3, 3, 2, 1, pytest.approx(2 / 3)],
    ]

    definition = made.summary_of(study / "out")["definitions"]["lesions"]
    assert definition.startswith("connected components (26 neighbours) of tumour")
    assert "(a pair at exactly 0.5 counts)" in definition


def test_metrics_on_lesions_are_those_of_the_named_labels(study):
    made.run_evaluate(
        study, "--instances", "tumour", "--metrics", "dice,lesion_recall,lesion_precision"
    )

    scores = made.scores_of(study / "out")

    assert list(scores.columns)[-4:] == [
        "lesions_reference",
        "lesions_found",
        "lesions_predicted",
        "lesions_invented",
    ]

    tumour = scores[scores["label"] == "tumour"]
    assert tumour["lesion_recall"].fillna(-1).tolist() == [1, 0.5, 0, -1]
    assert tumour["lesion_precision"].fillna(-1).tolist() == [1, 1, -1, 0]
    assert tumour["lesions_reference"].tolist() == [2, 2, 2, 0]
    assert scores[scores["label"] == "organ"].iloc[:, -4:].isna().all(axis=None)
    assert "2,2,2,0" in (study / "out" / "scores.csv").read_text().splitlines()[1]

    row = made.strata_of(study / "out", metric="lesion_recall").loc[("all", "all")]
    assert row[["n", "n_undefined", "n_left_out", "mean"]].tolist() == [4, 1, 1, 0.5]
    assert len(made.strata_of(study / "out", label="organ", metric="dice")) == 1
    assert len(made.strata_of(study / "out", label="organ", metric="lesion_recall")) == 0


def test_lesions_have_strata_and_requirements(study):
    made.write_cases(study, centre=["A", "A", "B", "B"])
    requirements = (
        "--require",
        "centre=* metric=lesion_f1 mean>=0.3",
        "--require",
        "metric=lesion_dice min>=0",
    )

    result = done(made.run_evaluate(study, "--instances", "*", "--by", "centre", *requirements), 3)

    unmet = "centre=B label=tumour metric=lesion_f1: mean 0.000 is not >= 0.3 (2 cases)"

    assert result.stderr == f"nnunet-dro: requirement not met: {unmet}\n"

    sizes = made.read_csv(study / "out" / "lesion_sizes.csv")
    assert sizes.loc[
        sizes["label"] == "tumour", ["stratum", "volume", "n_lesions"]
    ].to_numpy().tolist() == [
        *(["A", "0 to 10", 2], ["A", "10 to 100", 2], ["B", "0 to 10", 1], ["B", "10 to 100", 1]),
        *(["all", "0 to 10", 3], ["all", "10 to 100", 3]),
    ]


def test_missed_and_invented_lesions_are_those_that_are_counted(uncounted):
    texts = [
        f"label=tumour metric={name} mean>=0.6"
        for name in EVERY_LESION_METRIC
        if name != "lesion_hd95"
    ]
    texts.append("label=tumour metric=lesion_hd95 mean<=4")
    options = (
        "--instances",
        "tumour",
        "--lesions-above-mm3",
        10,
        "--metrics",
        ",".join(EVERY_LESION_METRIC),
    )

    result = done(
        made.run_evaluate(
            uncounted, *options, *(word for text in texts for word in ("--require", text))
        ),
        3,
    )

    assert [
        outcome["passed"] for outcome in made.summary_of(uncounted / "out")["requirements"]
    ] == [False] * len(texts)

    for name in EVERY_LESION_METRIC:
        row = made.strata_of(uncounted / "out", metric=name).loc[("all", "all")]
        assert row[["n_missed", "n_invented"]].tolist() == [4, 1]
    precision = made.strata_of(uncounted / "out", metric="lesion_precision").loc[("all", "all")]

    assert precision[["n_undefined", "n_left_out"]].tolist() == [4, 4]
    assert "leaves out 4 cases in which the label was missed" in result.stderr
    assert (
        "leaves out 1 case in which the label was predicted where the reference lacks it"
        in result.stderr
    )


def test_a_method_that_misses_what_is_counted_is_not_better_for_it(uncounted):
    options = (
        "--instances",
        "tumour",
        "--lesions-above-mm3",
        10,
        "--metrics",
        "lesion_precision",
        "--bootstrap",
        0,
    )
    made.run_evaluate(uncounted, *options)
    run(
        "evaluate",
        uncounted / "reference",
        uncounted / "reference",
        "-o",
        uncounted / "right",
        *options,
    )

    both = (f"right={uncounted / 'right'}", f"A={uncounted / 'out'}")
    done(run("compare", *both, "-o", uncounted / "c", "--bootstrap", 0))

    (row,) = made.read_csv(uncounted / "c" / "comparison.csv").to_dict("records")

    # Four missed what counts, and one invented a lesion where nothing that counts is.
    assert (row["n"], row["n_worst_method"], row["losses"]) == (7, 4, 5)


def test_a_missing_prediction_misses_every_lesion(study):
    (study / "prediction" / "case_00.nii.gz").unlink()
    made.run_evaluate(
        study, "--instances", "tumour", "--metrics", "lesion_dice,lesion_hd95", "--missing", "worst"
    )

    row = made.scores_of(study / "out").iloc[0]

    assert row[["lesion_dice", "lesion_hd95", "lesions_reference", "lesions_found"]].tolist() == [
        0,
        374,
        2,
        0,
    ]
    assert math.isnan(made.scores_of(study / "out").iloc[1]["lesion_hd95"])


def test_values_are_names_without_a_dataset_json(study):
    (study / "reference" / "dataset.json").unlink()
    done(made.run_evaluate(study, "--instances", "1", "--metrics", "lesion_f1"))

    scores = made.scores_of(study / "out").set_index("label")["lesion_f1"]

    assert scores["1"].tolist() == pytest.approx([1, 2 / 3, 0, 0])
    assert scores["2"].isna().all()

    unknown = made.run_evaluate(study, "--instances", "7", out="other")
    made.check_refused(unknown, study, "must be labels, got 7", out="other")


def test_pictures_without_a_voxel_size_have_lesions_in_voxels(tmp_path):
    made.write_pair(tmp_path, "a.png", *[[[1, 1, 0], [0, 0, 1], [0, 0, 0]]] * 2)
    done(
        made.run_evaluate(
            tmp_path, "--instances", "*", "--connectivity", "6", "--metrics", "lesion_hd95"
        )
    )

    lesions = made.read_csv(tmp_path / "out" / "lesions.csv")

    assert lesions["n_voxels"].tolist() == [2, 1, 2, 1]
    assert lesions["volume_mm3"].isna().all()
    assert lesions["hd95"].fillna(-1).tolist() == [0, 0, -1, -1]
    assert made.read_csv(tmp_path / "out" / "lesion_sizes.csv")["unit"].tolist() == ["voxels"]


def test_every_report_has_the_table_by_volume_and_can_be_made_again(study):
    result = made.run_evaluate(study, "--instances", "tumour", bootstrap=50)

    files = {name: content.decode() for name, content in made.contents(study / "out").items()}

    assert "lesions found, by volume" in result.stdout
    assert "| tumour | 10 to 100 | 3 | 3 | 2 | 66.7 \\[" in files["report.md"]
    assert r"10 to 100 & 3 & 3 & 2 & \withbelow{66.7}{[" in files["report.tex"]
    for words in ('id="lesions"', "Volume (mm³)", "matched one to one"):
        assert words in files["report.html"]

    done(run("report", study / "out"))

    assert {
        name: content.decode() for name, content in made.contents(study / "out").items()
    } == files

    read = evaluation_files(read_evaluation(study / "out"))
    assert {
        name: read[name] for name in ("lesions.csv", "lesion_sizes.csv")
    }.items() <= files.items()

    (study / "out" / "lesions.csv").unlink()
    assert "lesions.csv" not in evaluation_files(read_evaluation(study / "out"))


def test_methods_are_compared_by_lesions(study):
    shutil.copytree(study / "reference", study / "better")
    made.write_map(study / "better" / "case_00.nii.gz", spots(12, 4), spacing=(1.0, 1.0, 2.0))
    command = (
        "evaluate",
        study / "reference",
        study / "better",
        "--metrics",
        "dice,lesion_recall,lesion_f1",
    )
    options = ("--instances", "tumour", "--bootstrap", 0)
    made.run_evaluate(study, *options, *command[3:])
    run(*command, *options, "-o", study / "out2")
    run(*command, *options, "-o", study / "out3", "--match", "overlap")

    done(
        run(
            "compare",
            f"A={study / 'out'}",
            f"B={study / 'out2'}",
            "-o",
            study / "comparison",
            "--bootstrap",
            0,
        )
    )

    table = made.read_csv(study / "comparison" / "comparison.csv")

    assert table[["label", "metric", "mean_difference"]].to_numpy().tolist() == [
        ["tumour", "dice", pytest.approx((0 + 0.25 / 1.75 + 1 + 1) / 4)],
        # The case without a lesion, of which one was invented, counts as found and as failed.
        ["tumour", "lesion_recall", pytest.approx((0 + 0.5 + 1 + 1) / 4)],
        ["tumour", "lesion_f1", pytest.approx((0 + 1 / 3 + 1 + 1) / 4)],
        ["organ", "dice", 0],
    ]

    refused = run("compare", f"A={study / 'out'}", f"B={study / 'out3'}", "-o", study / "no")
    made.check_refused(refused, study, "`instances` must be the same in every evaluation", out="no")


def made_lesions(matched_of_case):
    """Lesions of 5 mm3."""
    rows = [(case, one) for case, matched in matched_of_case.items() for one in matched]
    fixed = {
        "label": "a",
        "of": "reference",
        "counted": True,
        "n_voxels": 5,
        "volume_mm3": 5.0,
        "dice": 0.5,
    }
    return pd.DataFrame(rows, columns=["case", "matched"]).assign(**fixed)


def recall_and_width(cases, **options):
    table = lesion_sizes(
        made_lesions(cases),
        {"all": pd.Series("all", index=list(cases))},
        n_resamples=500,
        **options,
    )
    recall, low, high = table[["recall", "recall_low", "recall_high"]].iloc[0].astype(float)
    return recall, high - low


def test_the_lesions_of_a_case_are_not_independent():
    rng = np.random.default_rng(0)
    # In 30 cases either all of ten lesions are found or none, or each is found at random: the same
    # recall.
    together = recall_and_width({f"case_{n}": [n % 2 == 0] * 10 for n in range(30)})

    apart = recall_and_width({f"case_{n}": (rng.permutation(10) < 5).tolist() for n in range(30)})

    assert together[0] == apart[0] == 0.5
    # With one value per case, the interval of 30 cases is about 0.36 wide; that of 300 lesions
    # 0.11.
    assert together[1] > 0.3
    assert apart[1] < together[1] / 1.5


def test_patients_are_one_and_volumes_without_a_lesion_have_no_row():
    cases = {f"case_{n}": [n % 4 < 2] * 3 for n in range(24)}
    patients = pd.Series([f"p{n // 2}" for n in range(24)], index=list(cases))

    assert recall_and_width(cases, patient_of_case=patients)[1] > 1.15 * recall_and_width(cases)[1]

    lesions = made_lesions({"case_1": [True, False]})
    lesions.loc[0, "volume_mm3"] = 1000.0
    lesions.loc[1, "counted"] = False

    table = lesion_sizes(lesions, {"all": pd.Series(["all"], index=["case_1"])}, n_resamples=0)

    assert table[["volume", "n_lesions"]].to_numpy().tolist() == [["1000 to 10000", 1]]
