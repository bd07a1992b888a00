"""What an evaluation knows of the values that are compared is what a comparison would compute."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation.comparing import method_tables
from nnunet_dro.evaluation.comparing.comparison import compare
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.stratum_statistics import false_positives, summarise
from nnunet_dro.evaluation.statistics.worst_strata import worst_strata

N = 24
LABELS = ("liver", "tumour", "vessel")


def scored(seed, *, missed=(), options=None):
    """An evaluation of two metrics, in which some labels are missed in the first case."""
    options = {"failure": "dice<0.5", "patient": None, **(options or {})}
    rng = np.random.default_rng(seed)
    cases = [f"case_{number}" for number in range(N)]
    scores = pd.MultiIndex.from_product([cases, LABELS], names=["case", "label"]).to_frame(False)
    scores["dice"] = rng.beta(4, 2, len(scores))
    scores["hd95"] = rng.gamma(2, 3, len(scores))
    is_missed = (scores["case"] == "case_0") & scores["label"].isin(missed)
    scores.loc[is_missed, ["dice", "hd95"]] = (0, np.nan)
    scores["n_reference"] = 100
    scores["n_prediction"] = np.where(is_missed, 0, 90)
    scores["n_intersection"] = np.where(is_missed, 0, 80)
    scores["prediction_ml"] = scores["n_prediction"] / 1000
    patients = [f"p{number // 2}" for number in range(N)]
    scores["person"] = np.repeat(patients, len(LABELS))

    stratum_of_case = {
        "site": pd.Series(pd.Categorical(["B", "A", "B"] * 8, ["B", "A"], ordered=True), cases),
        "sex": pd.Series(pd.Categorical(["f", "m"] * 12, ["f", "m"], ordered=True), cases),
    }
    patient_of_case = pd.Series(patients, cases, name="person") if options["patient"] else None
    statistics = summarise(
        scores,
        stratum_of_case,
        metrics=["dice", "hd95"],
        patient_of_case=patient_of_case,
        one_sided=[("p10", "low", 95.0)],
        failure=options["failure"],
        n_resamples=options.get("n_resamples", 2000),
    )
    others = (worst_strata(statistics), false_positives(scores))
    return Evaluation("m", scores, statistics, stratum_of_case, *others, {"options": options})


def computed_anew(monkeypatch, evaluations, **options):
    """The statistics of a comparison that knows none of them."""
    with monkeypatch.context() as patch:
        known = method_tables.known_statistics
        patch.setattr(
            method_tables, "known_statistics", lambda *given, **named: known(*given, **named)[:0]
        )
        return compare(evaluations, **options).strata


@pytest.mark.parametrize("missed", [(), ("tumour",), ("vessel", "liver"), LABELS])
@pytest.mark.parametrize(
    "recorded", [{}, {"patient": "person"}, {"failure": "hd95>4"}, {"n_resamples": 0}]
)
@pytest.mark.parametrize("options", [{}, {"by": ["sex", "site"]}, {"n_resamples": 0}])
def test_statistics_are_those_that_are_computed_anew(monkeypatch, missed, recorded, options):
    evaluations = {
        "a": scored(0, options=recorded),
        "b": scored(1, missed=missed, options=recorded),
    }
    found = compare(evaluations, **options).strata
    expected = computed_anew(monkeypatch, evaluations, **options)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-12, check_dtype=False)


def test_only_labels_with_other_values_are_described_again(monkeypatch):
    described = []
    describe = method_tables.summarise

    def spied(scores, *args, **named):
        described.append(set(scores["label"]))
        return describe(scores, *args, **named)

    monkeypatch.setattr(method_tables, "summarise", spied)
    compare({"a": scored(0), "b": scored(1)})
    assert described == []

    # A distance that one method lacks counts as the worst there, and the label has other values.
    compare({"a": scored(0), "b": scored(1, missed=["tumour"])})
    assert described == [{"tumour"}]


@pytest.mark.parametrize("changed", ["strata", "patients", "failure", "case"])
def test_an_evaluation_of_something_else_is_described_again(monkeypatch, changed):
    first = scored(0, options={"patient": "person"})
    second = scored(1, options={"patient": "person"})
    if changed == "strata":
        # That of its own statistics has no stratum of this attribute.
        second = replace(second, stratum_of_case={"site": second.stratum_of_case["site"]})
    elif changed == "patients":
        second.scores["person"] = second.scores["case"]
    elif changed == "failure":
        second.about["options"]["failure"] = "dice<0.9"
    else:
        rows = first.scores["case"] != "case_3"
        first = replace(first, scores=first.scores[rows].reset_index(drop=True))

    evaluations = {"a": first, "b": second}
    options = {"intersect": changed == "case"}
    found = compare(evaluations, **options).strata
    expected = computed_anew(monkeypatch, evaluations, **options)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-12, check_dtype=False)
