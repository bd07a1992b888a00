"""Made-up evaluations for explorations: attributes at random, and scores that depend on them or
not."""

import numpy as np

from tests.ranking.made import evaluation_of

STRATA = {"centre": "ABC", "scanner": ("X", "Y", "Z"), "sex": ("f", "m"), "phase": ("1", "2", "3")}


def made(
    n=160,
    seed=0,
    *,
    effect=0.0,
    metric="dice",
    per_patient=1,
    labels=("liver",),
    patient=None,
    missed=(),
):
    """An evaluation by the attributes; scores of A, X are lower by the effect, and the means of all
    strata equal.

    So many cases of every patient have the same entries.
    """
    rng = np.random.default_rng(seed)
    of_case = np.arange(n) // per_patient
    columns = {
        name: [strata[i] for i in rng.integers(len(strata), size=n)[of_case]]
        for name, strata in STRATA.items()
    }
    columns["patient"] = [f"p{number:03}" for number in of_case]
    is_a, is_x = (
        np.array(columns[name]) == stratum for name, stratum in (("centre", "A"), ("scanner", "X"))
    )
    shift = np.where(is_a & is_x, -1.0, np.where(is_a | is_x, 0.5, -0.25)) * effect
    values = {}
    for label in labels:
        fractions = np.clip(0.6 + 0.08 * rng.normal(size=n) + shift, 0, 1)
        values[label] = 40 * (1 - fractions) if metric == "hd95" else fractions
        values[label][list(missed)] = np.nan if metric == "hd95" else 0.0
    given = {"columns": columns, "attributes": list(STRATA), "options": {"by": list(STRATA)}}
    return evaluation_of("dro", {metric: values}, patient=patient, missed=missed, **given)
