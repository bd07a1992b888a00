"""Tables of scores that are made up, in the form of `Evaluation.scores`."""

from typing import Any

import pandas as pd

from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise

LABEL = "label"


def made_case_names(n: int) -> list[str]:
    """The names of n cases, in their order."""
    return [f"case_{number:03}" for number in range(n)]


def made_scores(**columns: "list[float]") -> pd.DataFrame:
    """The scores of a label; NaN is undefined.

    Each reference and each prediction has the label, unless ``n_reference`` and ``n_prediction``
    are among the columns.
    """
    n = len(next(iter(columns.values())))
    sizes = {"n_reference": [1.0] * n, "n_prediction": [1.0] * n}
    return pd.DataFrame({"case": made_case_names(n), "label": LABEL, **sizes, **columns})


def made_strata(attribute: str, names: list[str]) -> "dict[str, pd.Series[str]]":
    """The strata of an attribute, from the name of that of each case."""
    kind = pd.CategoricalDtype(list(dict.fromkeys(names)), ordered=True)
    cases = pd.Index(made_case_names(len(names)), name="case")
    strata: Any = pd.Series(names, index=cases, name=attribute).astype(kind)
    return {attribute: strata}


def made_evaluation(
    method: str, scores: pd.DataFrame, strata: "dict[str, pd.Series[str]]"
) -> Evaluation:
    """The evaluation of a method by its Dice and HD95."""
    return Evaluation(
        method=method,
        scores=scores,
        strata=summarise(scores, strata, metrics=("dice", "hd95")),
        stratum_of_case=strata,
        worst=pd.DataFrame(),
        false_positives=pd.DataFrame(),
    )
