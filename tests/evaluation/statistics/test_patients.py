"""With patients, every patient counts once: in the number, its bounds, the requirement and the
test."""

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.choices import PatientScore
from nnunet_dro.evaluation.judging.outcomes import check_requirements
from nnunet_dro.evaluation.judging.requirements import one_sided_of, parse_requirement
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.columns import INTERVALS, PERCENTILES, STATISTICS, unit_of
from nnunet_dro.evaluation.statistics.patients import (
    note_on_divided_patients,
    note_on_repeated_patients,
    patient_values,
)
from nnunet_dro.evaluation.statistics.sample_bounds import percentile_bounds
from nnunet_dro.evaluation.statistics.significance import wilcoxon_p
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise
from tests.commands import done, run
from tests.evaluation.made_folders import (
    evaluate_both,
    read_csv,
    scores_of,
    summary_of,
    write_study,
)

NAN = float("nan")


def described(values, patients, **options):
    """The row of one stratum, with patients or without (None)."""
    cases = [f"c{n:04}" for n in range(len(values))]
    of_case = None if patients is None else pd.Series([f"p{n}" for n in patients], index=cases)
    return summarise(
        pd.DataFrame({"case": cases, "label": "one", "dice": values}),
        patient_of_case=of_case,
        **options,
    )


def test_patient_values_are_means_of_the_cases_that_have_a_value():
    values = np.array([1.0, 3.0, NAN, 5.0, NAN])
    patients = np.array([4, 4, 4, 0, 7])

    assert patient_values(values, patients)[:2].tolist() == [5, 2]
    assert np.isnan(patient_values(values, patients)[2])
    assert patient_values(np.stack([values, values]), patients).shape == (2, 3)
    assert patient_values(values[:2], np.array([1, 0])).tolist() == [3, 1]


def test_a_case_without_a_patient_is_refused():
    scores = pd.DataFrame({"case": ["a", "b", "c"], "label": "liver", "dice": [0.1, 0.5, 0.9]})

    with pytest.raises(ValueError, match=r"name the patient of every case, got none for b, c\. "):
        summarise(scores, patient_of_case=pd.Series({"a": "p1"}))


def test_one_case_per_patient_is_as_without_patients():
    values = np.random.default_rng(0).random(60)
    alone = described(values, None)

    together = described(values, np.random.default_rng(1).permutation(60))

    pd.testing.assert_frame_equal(together.drop(columns="n_patients"), alone)

    values = np.random.default_rng(0).random(100)
    once = described(values, None)
    copied = described(np.repeat(values, 2), np.repeat(np.arange(100), 2))

    np.testing.assert_allclose(copied[[*STATISTICS]], once[[*STATISTICS]])
    np.testing.assert_allclose(copied[[*INTERVALS]], once[[*INTERVALS]])
    assert copied[["n", "n_patients"]].to_numpy().tolist() == [[200, 100]]


def test_a_patient_with_many_bad_cases_counts_once_everywhere():
    # Five bad patients with six cases each, and 55 good ones with one.
    values = np.r_[np.full(30, 0.46), np.full(55, 0.947)]
    patients = np.r_[np.repeat(np.arange(5), 6), np.arange(5, 60)]
    requirements = [
        parse_requirement(text) for text in ("p25>=0.70@95", "p25>=0.70", "p5>=0.70@95", "p5>=0.70")
    ]

    table = described(values, patients, one_sided=one_sided_of(requirements))

    assert [outcome.passed for outcome in check_requirements(table, requirements)] == [
        True,
        True,
        False,
        False,
    ]

    row = table.iloc[0]
    assert row["p25"] == pytest.approx(0.947)
    assert row["p5"] == pytest.approx(0.46)
    assert row["mean"] == pytest.approx((5 * 0.46 + 55 * 0.947) / 60)
    # A patient fails if any case does.
    assert row["n_failed"] == 5
    assert described(np.r_[0.4, np.full(9, 0.9)], np.repeat(np.arange(5), 2))[
        "n_failed"
    ].tolist() == [1]


def population(rng, n_patients, *, soft):
    """Cases and their patients: the bad patients have more cases, and cases of a patient are alike."""
    skill = (
        rng.beta(6, 2, n_patients) if soft else np.where(rng.random(n_patients) < 0.25, 0.46, 0.947)
    )
    sizes = 1 + rng.binomial(8, np.clip(1 - skill, 0, 1)) if soft else np.where(skill < 0.5, 6, 1)
    patients = np.repeat(np.arange(n_patients), sizes)
    return np.clip(
        skill[patients] + rng.normal(0, 0.05 if soft else 0, len(patients)), 0, 1
    ), patients


@pytest.mark.parametrize("soft", [True, False])
def test_verdicts_pass_falsely_in_at_most_5_percent(soft):
    every = patient_values(*population(np.random.default_rng(0), 200_000, soft=soft))
    # Samples of 60 patients.
    ascending = np.sort(every[:120_000].reshape(2000, 60), axis=1)
    for percent in PERCENTILES.values():
        low = percentile_bounds(ascending, percent, tail=0.05)[:, 0]
        # A hair above the truth, so that meeting it is wrong.
        assert (low > np.quantile(every, percent / 100)).mean() <= 0.05 + 3 * np.sqrt(
            0.05 * 0.95 / 2000
        )
        assert not (low > np.quantile(ascending, percent / 100, axis=1)).any()


@pytest.mark.parametrize(
    ("cases", "is_noted"),
    [
        (["p01_left", "p01_right", "p02_left", "p02_right"], True),
        (["sub-01_ses-1", "sub-01_ses-2", "sub-02_ses-1"], True),
        ([f"Image_{n:02}{side}" for n in range(1, 15) for side in "LR"], True),
        (["eye12od", "eye12os"], True),
        (["hippocampus_001", "hippocampus_002"], False),
        (["markerL", "markerR"], False),
        ([f"case_{n:02}" for n in range(30)], False),
        ([f"site1_{n:02}" for n in range(30)] + [f"site2_{n:02}" for n in range(30)], False),
        (["p01", "p02", "p03_left"], False),
        ([], False),
    ],
)
def test_names_that_look_like_repeated_patients_are_noted(cases, is_noted):
    assert bool(note_on_repeated_patients(cases)) is is_noted


def test_patients_count_where_none_of_them_has_a_value():
    assert unit_of({"n": 2, "n_undefined": 2, "n_patients": 0}) == "patient"
    assert unit_of({"n": 2, "n_undefined": 2}) == "case"


def test_patients_with_cases_in_several_strata_are_noted():
    cases = ["a", "b", "c", "d"]
    patients = pd.Series(["p", "p", "q", "q"], index=cases)
    strata = {
        "centre": pd.Series(["A", "A", "B", "B"], index=cases),
        "side": pd.Series(["left", "right", "left", "left"], index=cases),
    }

    (note,) = note_on_divided_patients(patients, strata)

    assert note.startswith("Some patients have cases in several strata (1 by side) and count in")
    assert note_on_divided_patients(patients, {"centre": strata["centre"]}) == []


def test_counts_say_cases_and_patients(tmp_path):
    """Eight cases of four patients, with shifts that a second method halves."""
    write_study(tmp_path, shifts=(0, 0, 2, 2, 4, 4, 2, 4))
    columns = {"centre": ["A"] * 4 + ["B"] * 4, "who": ["p", "p", "q", "q", "r", "r", "s", "s"]}
    options = ("--by", "centre", "--patient", "who")
    both = evaluate_both(tmp_path, (0, 0, 1, 1, 2, 2, 1, 2), *options, bootstrap=100, **columns)

    table = read_csv(tmp_path / "erm" / "strata.csv")

    assert table.columns[4:7].tolist() == ["n", "n_patients", "n_undefined"]
    assert table[["n", "n_patients"]].drop_duplicates().to_numpy().tolist() == [[4, 2], [8, 4]]
    assert "| tumour | A | 4 (2 patients, few) |" in (tmp_path / "erm" / "report.md").read_text(
        encoding="utf-8"
    )

    said = "8 cases are of 4 patients (who). Every patient counts once"
    assert any(said in note for note in summary_of(tmp_path / "erm")["notes"])
    assert scores_of(tmp_path / "erm").groupby("who")["case"].nunique().tolist() == [2, 2, 2, 2]

    done(run("compare", *both, "-o", tmp_path / "both", "--bootstrap", 50))

    row = (
        read_csv(tmp_path / "both" / "comparison.csv")
        .set_index(["stratum", "label"])
        .loc[("all", "tumour")]
    )

    assert row["wilcoxon_p"] == pytest.approx(wilcoxon_p(np.array([0, 0.25, 0.5, 0.375])))
    assert row[["n", "n_patients", "wins", "ties", "losses"]].tolist() == [8, 4, 3, 1, 0]
    assert row["mean_difference"] == pytest.approx(np.mean([0, 0.25, 0.5, 0.375]))
    assert summary_of(tmp_path / "both")["about"]["options"]["patient"] == "who"


def test_worst_case_of_a_patient_is_that_of_the_metric():
    patients = np.array([1, 1, 0, 0, 2])
    fractions = np.array([0.9, 0.2, NAN, 0.7, NAN])
    millimetres = np.array([[3.0, 8.0, NAN, 1.0, NAN], [3.0, 2.0, 4.0, 1.0, 5.0]])
    signed = np.array([1.0, -3.0, 2.0, -1.0, NAN])

    dice = patient_values(fractions, patients, worst_by=METRICS["dice"])
    assert dice[:2].tolist() == [0.7, 0.2]
    assert np.isnan(dice[2])
    hd95 = patient_values(millimetres, patients, worst_by=METRICS["hd95"])
    assert hd95[:, :2].tolist() == [[1.0, 8.0], [4.0, 3.0]]
    errors = patient_values(signed, patients, worst_by=METRICS["volume_error"])
    assert errors[:2].tolist() == [2.0, -3.0]
    alone = patient_values(fractions[:2], np.array([1, 0]), worst_by=METRICS["dice"])
    assert alone.tolist() == [0.2, 0.9]


def test_mean_of_a_patient_hides_what_its_worst_case_shows():
    values = [0.95, 0.35, 0.9, 0.9]
    patients = [0, 0, 1, 1]

    mean = described(values, patients).iloc[0]
    worst = described(values, patients, patient_score=PatientScore.WORST).iloc[0]

    assert (mean["min"], worst["min"]) == pytest.approx((0.65, 0.35))
    assert worst["n_patients"] == 2
    # A patient fails with any of its cases, whatever it scores.
    assert mean["n_failed"] == worst["n_failed"] == 1


def test_score_of_patients_is_that_of_evaluation_comparison_and_plan(tmp_path):
    root = write_study(tmp_path, shifts=(0, 3, 0, 0), patient=["a", "a", "b", "b"])
    done(
        run(
            *("evaluate", root / "reference", root / "prediction", "-o", root / "worst"),
            *("--cases", root / "cases.csv", "--patient", "patient", "--patient-score", "worst"),
        )
    )

    summary = summary_of(root / "worst")
    assert summary["options"]["patient_score"] == "worst"
    assert any("with the worst of its cases" in note for note in summary["notes"])
    scores = read_csv(root / "worst" / "scores.csv").groupby("label")["dice"]
    strata = read_csv(root / "worst" / "strata.csv").set_index("label")
    assert strata["mean"].to_dict() == pytest.approx(((scores.min() + 1) / 2).to_dict())

    both = (f"old={root / 'worst'}", f"new={root / 'worst'}")
    done(run("compare", *both, "-o", root / "comparison"))
    compared = read_csv(root / "comparison" / "comparison.csv").set_index("label")
    assert compared["mean_baseline"].to_dict() == pytest.approx(strata["mean"].to_dict())
