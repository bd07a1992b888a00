"""Dots, curves and percentiles are of the same unit: of cases, or of patients."""

from dataclasses import replace

import pytest

from nnunet_dro.evaluation.report.evaluation_page import evaluation_html
from nnunet_dro.evaluation.report.formatting import metric_named
from nnunet_dro.evaluation.report.shown_cases import ShownCases
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise
from tests.pages.drawn_dots import drawn_dots

from .made import evaluation_of, scores_of


def with_patients(score):
    """Sixty cases of 20 patients, three each, one in every pathology."""
    scores, strata = scores_of(60, labels=("one",))
    patients = [f"p{n // 3:02d}" for n in range(60)]
    made = evaluation_of(scores.assign(patient=patients), {"centre": strata["centre"]})
    options = {**made.about["options"], "patient": "patient", "patient_score": score}
    made = replace(made, about={**made.about, "options": options})
    described = summarise(
        made.scores,
        made.stratum_of_case,
        patient_of_case=made.patient_of_case,
        patient_score=made.options.patient_score,
        n_resamples=0,
    )
    return replace(made, strata=described)


@pytest.mark.parametrize("score", ["mean", "worst"])
def test_dots_are_the_values_that_the_table_describes(score):
    evaluation = with_patients(score)
    cases = ShownCases.of(evaluation, [metric_named("dice")])

    units = cases.units("one", "centre", metric_named("dice"))

    described = evaluation.strata.set_index("stratum")
    strata = units["case"].map(evaluation.stratum_of_case["centre"].astype(str))
    for stratum, inside in units.groupby(strata):
        row = described.loc[stratum]
        assert len(inside) == row["n_patients"]
        assert inside["dice"].mean() == pytest.approx(row["mean"])
        assert inside["dice"].quantile(0.05) == pytest.approx(row["p5"])


def test_dot_of_a_patient_opens_its_worst_case():
    evaluation = with_patients("mean")
    cases = ShownCases.of(evaluation, [metric_named("dice")])
    units = cases.units("one", "centre", metric_named("dice"))

    scores = evaluation.scores.assign(centre=evaluation.stratum_of_case["centre"].to_numpy())
    worst = scores.loc[scores.groupby(["patient", "centre"], observed=True)["dice"].idxmin()]

    assert set(units["case"]) == set(worst["case"])


def test_page_says_what_a_dot_is():
    page = evaluation_html(with_patients("worst"))
    assert "Every dot is a patient" in page
    assert "share of patients (%)" in page
    dots = drawn_dots(page.split("against the volume")[0])
    assert len(dots) == len(
        ShownCases.of(with_patients("worst"), [metric_named("dice")]).units(
            "one", "centre", metric_named("dice")
        )
    )


def test_cases_stay_cases_without_patients():
    page = evaluation_html(evaluation_of(*scores_of(30)))
    assert "Every dot is a case" in page
    assert "share of cases (%)" in page


def test_only_errors_without_a_sign_can_be_sorted_worst_first():
    cases = ShownCases.of(with_patients("mean"), [metric_named("dice")])
    signed = replace(cases, metrics=[metric_named("volume_error")])

    assert cases.about_table == "A row per case and label, worst first."
    order = "from the largest to the smallest volume error"
    assert signed.about_table == f"A row per case and label, {order}."
