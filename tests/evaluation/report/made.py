"""Evaluations and comparisons to report on: their scores and intervals are made up."""

from dataclasses import replace

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.comparing.comparison import compare
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise
from nnunet_dro.evaluation.statistics.worst_strata import worst_strata

LABELS = ("white matter", "ventricles", "cerebellum")
ORDER = ["attribute", "stratum", "label", "metric", "n", "n_undefined", *STATISTICS]
HOSTILE = (
    "<script>window.hurt=1</script>",
    "../x",
    "a'b\"c",
    "</script><img src=x onerror=window.hurt=2>",
    "{{7*7}}",
    "ä|b`c*_[d](e)\\&#%$~^",
)


def ordered(values, index):
    names = sorted(set(values), key=lambda name: (name == "missing", name))
    return pd.Series(pd.Categorical(values, categories=names, ordered=True), index=index)


def scores_of(
    n_cases=60, labels=LABELS, *, gain=0.0, metrics=("dice",), cases=None, attributes=None
):
    rng = np.random.default_rng(0)
    cases = cases or [f"case_{n:04d}" for n in range(n_cases)]
    attributes = attributes or {
        "pathology": [("control", "spina_bifida", "other")[n % 3] for n in range(len(cases))],
        "centre": [("A", "B", "B", "C", "A")[n % 5] for n in range(len(cases))],
    }
    rows = []
    for n, case in enumerate(cases):
        for place, label in enumerate(labels):
            hard = (
                3.0 if attributes and next(iter(attributes.values()))[n] == "spina_bifida" else 1.0
            )
            dice = 1 - hard * (0.05 + 0.03 * place) * rng.gamma(2.0, 0.7)
            dice = float(np.clip(dice + gain * (hard - 1) * rng.uniform(0, 1), 0, 1))
            volume = float(rng.lognormal(3 - place, 0.7))
            row = {"case": case, "label": label, "dice": dice}
            row |= {name: float(rng.gamma(2.0, 2.0) * hard) for name in metrics if name != "dice"}
            n_reference = int(volume * 1000)
            row |= {
                "n_reference": n_reference,
                "n_prediction": n_reference,
                "n_intersection": int(dice * n_reference),
            }
            row |= {"reference_ml": volume, "prediction_ml": volume * 1.02}
            rows.append(row | {name: values[n] for name, values in attributes.items()})
    return pd.DataFrame(rows), {name: ordered(values, cases) for name, values in attributes.items()}


def with_bounds(table, *, of=""):
    """The table with bounds of every statistic, 3 points or 0.03 mm to either side."""
    ends = (("_low", -0.03), ("_high", 0.03))
    return table.assign(
        **{f"{name}{of}{end}": table[name + of] + by for name in STATISTICS for end, by in ends}
    )


def evaluation_of(scores, stratum_of_case, metrics=("dice",), *, notes=(), about=None):
    """An evaluation without counts of failures, and with made-up bounds."""
    cases = scores["case"].unique()
    groups = stratum_of_case or {"all": ordered(["all"] * len(cases), cases)}
    strata = with_bounds(summarise(scores, groups, metrics=metrics, n_resamples=0)[ORDER])
    empty = [
        (label, 3, 1, 2.5, 2.5, scores["case"].iloc[0])
        if n == 0
        else (label, 0, 0, np.nan, np.nan, "")
        for n, label in enumerate(scores["label"].unique())
    ]
    columns = ["label", "n_empty_references", "n_false_positives", "mean_ml", "max_ml", "max_case"]
    about = about or {
        "versions": {"nnunet-dro": "0.1.0", "numpy": "2.2.6"},
        "options": {"metrics": list(metrics), "by": list(stratum_of_case), "empty": "undefined"},
        "definitions": {
            "interval": "95 % percentile bootstrap, cases resampled within their stratum"
        },
        "inputs": {"reference": "labelsTr", "prediction": "predictions"},
    }
    worst = worst_strata(strata).drop(columns=["gap_low", "gap_high"])
    method = "nnUNetTrainer__nnUNetPlans__3d_fullres"
    return Evaluation(
        method, scores, strata, groups, worst, pd.DataFrame(empty, columns=columns), about, notes
    )


def comparison_of(scores_by_method, stratum_of_case, metrics=("dice",)):
    """A comparison whose intervals and p values are made up, as are those of `evaluation_of`."""
    evaluations = {
        name: evaluation_of(scores, stratum_of_case, metrics)
        for name, scores in scores_by_method.items()
    }
    made = compare(evaluations, n_resamples=0)
    table = made.table.drop(columns=["n_left_out", "n_worst_baseline", "n_worst_method"])
    gain = table["mean_difference"]
    n = table["n"]
    same = table["mean_baseline"] == table["mean_method"]
    table = with_bounds(table, of="_difference").assign(
        **{
            f"mean_difference_{end}_guaranteed": gain + by
            for end, by in (("low", -0.1), ("high", 0.1))
        },
        **{
            f"typical_difference{end}": gain + by
            for end, by in (("", 0), ("_low", -0.02), ("_high", 0.02))
        },
        **{name: np.where(same, 1.0, p) for name, p in (("wilcoxon_p", 0.004), ("holm_p", 0.012))},
        **{"wins": np.where(same, 0, n), "ties": np.where(same, n, 0), "losses": 0},
    )
    about = {
        "versions": {"nnunet-dro": "0.1.0"},
        "definitions": {"Holm": "over the tests of one metric"},
    }
    return replace(
        made,
        table=table,
        strata=with_bounds(made.strata[["method", *ORDER]]),
        about=about,
        notes=(),
    )
