"""Several cases of one patient are resampled, tested and counted together."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from nnunet_dro.evaluation.intervals import N_FOR_T, difference_intervals, intervals
from nnunet_dro.evaluation.mean_bounds import bounded_mean_and_std, mean_by_students_t
from nnunet_dro.evaluation.patients import (
    clustered_mean_and_std,
    clustered_percentile_bounds,
    clustered_students_t,
    note_on_repeated_patients,
    patient_means,
)
from nnunet_dro.evaluation.significance import wilcoxon_p
from nnunet_dro.evaluation.statistics import PERCENTILES, STATISTICS
from tests.evaluation.made_folders import (
    bars,
    read_csv,
    run,
    run_evaluate,
    summary_of,
    write_cases,
    write_map,
    write_study,
)

OPTIONS = {"tail": 0.025, "n_resamples": 500, "seed": 3}
MEAN = list(STATISTICS).index("mean")


def test_one_case_per_patient_is_as_without_patients():
    values, patients = np.random.default_rng(0).random(60), np.random.default_rng(1).permutation(60)
    alone = bounded_mean_and_std(np.sort(values)[None], low=0, high=1, **OPTIONS)
    # The weights meet the values in another order, so the ends agree as two draws do.
    together = clustered_mean_and_std(values, patients, low=0, high=1, **OPTIONS)

    np.testing.assert_allclose(together[0], alone[0][0], atol=0.02)
    np.testing.assert_allclose(
        clustered_students_t(values, patients, tail=0.025), mean_by_students_t(values[None], tail=0.025)[0]
    )
    with_patients = intervals([values], bounded=[True], patients=[patients], n_resamples=200)
    np.testing.assert_array_equal(with_patients, intervals([values], bounded=[True], n_resamples=200))


def test_copies_of_a_patient_say_nothing_new():
    values = np.random.default_rng(0).random(100)
    twice, patients = np.repeat(values, 2), np.repeat(np.arange(100), 2)
    (once,) = intervals([values], bounded=[True], n_resamples=2000)
    (copied,) = intervals([twice], bounded=[True], patients=[patients], n_resamples=2000)
    (naive,) = intervals([twice], bounded=[True], n_resamples=2000)

    for name in PERCENTILES:
        np.testing.assert_array_equal(copied[list(STATISTICS).index(name)], once[list(STATISTICS).index(name)])
    np.testing.assert_allclose(copied[MEAN], once[MEAN], atol=0.01)
    assert naive[MEAN, 1] - naive[MEAN, 0] < 0.8 * (copied[MEAN, 1] - copied[MEAN, 0])


def test_percentiles_are_bounded_by_the_worst_and_the_best_cases_of_the_patients():
    worst, best = np.arange(80.0), np.arange(80.0) + 100
    values, patients = np.concatenate([worst, best]), np.tile(np.arange(80), 2)

    low, _ = clustered_percentile_bounds(values, patients, 5, tail=0.025)
    _, high = clustered_percentile_bounds(values, patients, 50, tail=0.025)

    assert low == 0
    assert high == best[49]
    assert np.isnan(clustered_percentile_bounds(values, patients % 40, 5, tail=0.025)[0])


def test_the_mean_of_patients_with_several_cases_holds():
    rng = np.random.default_rng(0)
    sizes = np.tile([1, 2, 4], 10)
    patients = np.repeat(np.arange(30), sizes)
    held = {"patients": 0, "naive": 0}
    for _ in range(400):
        # The cases of a patient differ little; size and score do not depend on each other.
        score = np.clip(np.repeat(rng.beta(8, 2, 30), sizes) + rng.normal(0, 0.01, len(patients)), 0, 1)
        ends = clustered_mean_and_std(score, patients, low=0, high=1, tail=0.025, n_resamples=400, seed=0)[0]
        held["patients"] += ends[0] <= 0.8 <= ends[1]
        naive = stats.ttest_1samp(score, 0).confidence_interval(0.95)
        held["naive"] += naive.low <= 0.8 <= naive.high

    assert held["patients"] >= 0.93 * 400
    assert held["naive"] < 0.85 * 400


def test_differences_of_patients_with_several_cases():
    rng = np.random.default_rng(0)
    changes = rng.normal(0.02, 0.02, N_FOR_T)
    before = rng.uniform(0.3, 0.6, N_FOR_T)
    pair = [(np.repeat(before, 2), np.repeat(before + changes, 2))]
    (found,) = difference_intervals(pair, bounded=[True], patients=[np.repeat(np.arange(N_FOR_T), 2)], n_resamples=100)

    np.testing.assert_allclose(found[MEAN], mean_by_students_t(changes[None], tail=0.025)[0])


def test_a_single_patient_has_no_intervals():
    found = intervals([np.array([0.5, 0.6, 0.7])], bounded=[True], patients=[np.zeros(3, int)])

    assert np.isnan(found).all()


def test_patient_means():
    assert patient_means(np.array([1.0, 3.0, 5.0]), np.array([4, 4, 0])).tolist() == [5, 2]


@pytest.mark.parametrize(
    ("cases", "is_noted"),
    [
        (["p01_left", "p01_right", "p02_left", "p02_right"], True),
        (["sub-01_ses-1", "sub-01_ses-2", "sub-02_ses-1"], True),
        (["hippocampus_001", "hippocampus_002"], False),
        ([f"case_{n:02}" for n in range(30)], False),
        ([f"site1_{n:02}" for n in range(30)] + [f"site2_{n:02}" for n in range(30)], False),
        (["p01", "p02", "p03_left"], False),
        ([], False),
    ],
)
def test_names_that_look_like_repeated_patients_are_noted(cases, is_noted):
    assert bool(note_on_repeated_patients(cases)) is is_noted


@pytest.fixture
def two_evaluations(tmp_path):
    """Eight cases of four patients, with shifts that a second method halves."""
    write_study(tmp_path, shifts=(0, 0, 2, 2, 4, 4, 2, 4))
    cases = write_cases(tmp_path, centre=["A"] * 4 + ["B"] * 4, who=["p", "p", "q", "q", "r", "r", "s", "s"])
    options = ("--cases", cases, "--by", "centre", "--patient", "who")
    assert run_evaluate(tmp_path, *options, out="erm", bootstrap=100).exit_code == 0
    for n, shift in enumerate((0, 0, 1, 1, 2, 2, 1, 2)):
        write_map(tmp_path / "prediction" / f"case_{n:02}.nii.gz", bars(4, shift))
    assert run_evaluate(tmp_path, *options, out="dro", bootstrap=100).exit_code == 0
    return tmp_path


def test_counts_say_cases_and_patients(two_evaluations):
    table = read_csv(two_evaluations / "erm" / "strata.csv")

    assert table.columns[4:7].tolist() == ["n", "n_patients", "n_undefined"]
    assert table[["n", "n_patients"]].drop_duplicates().to_numpy().tolist() == [[8, 4], [4, 2]]
    assert "| A | tumour | 4 | 2 | 0 |" in (two_evaluations / "erm" / "report.md").read_text(encoding="utf-8")
    assert any("8 cases are of 4 patients (who)" in note for note in summary_of(two_evaluations / "erm")["notes"])


def test_wilcoxon_is_of_patients(two_evaluations):
    folders = [f"{name}={two_evaluations / name.lower()}" for name in ("ERM", "DRO")]

    result = run("compare", *folders, "-o", two_evaluations / "both", "--bootstrap", 50)

    assert result.exit_code == 0, result.output
    table = read_csv(two_evaluations / "both" / "comparison.csv").set_index(["stratum", "label"])
    row = table.loc[("all", "tumour")]
    assert row["wilcoxon_p"] == pytest.approx(wilcoxon_p(np.array([0, 0.25, 0.5, 0.375])))
    assert (row["n"], row["wins"]) == (8, 6)
    assert summary_of(two_evaluations / "both")["about"]["options"]["patient"] == "who"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--patient", "who"), "column `who` must name a patient for every case, got none for case_01"),
        (("--cases", "cases.csv", "--patient", "what"), "`--patient` must be a column of the case table, got 'what'"),
        (
            ("--cases", "cases.csv", "--patient", "who"),
            "`who` must name a patient for every case, got none for case_01",
        ),
    ],
)
def test_a_patient_is_needed_for_every_case(tmp_path, monkeypatch, options, message):
    write_study(tmp_path, shifts=(0, 1))
    write_cases(tmp_path, who=["p", ""])
    monkeypatch.chdir(tmp_path)

    result = run_evaluate(tmp_path, *options)

    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


def test_scores_read_from_a_folder_keep_the_patients(two_evaluations):
    scores = pd.read_csv(two_evaluations / "dro" / "scores.csv")

    assert scores.groupby("who")["case"].nunique().tolist() == [2, 2, 2, 2]
