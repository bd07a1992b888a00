"""Evaluations and comparisons to report on, made without the code that computes them."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.evaluation.statistics.stratum_statistics import describe

ORDER = ["attribute", "stratum", "label", "metric", "n", "n_undefined", *STATISTICS]
HOSTILE = (
    "<script>window.hurt=1</script>",
    "../x",
    "a'b\"c",
    "</script><img src=x onerror=window.hurt=2>",
    "{{7*7}}",
    "ä|b`c*_[d](e)\\&#%$~^",
)


@dataclass
class MadeComparison:
    """The fields of a comparison."""

    methods: tuple
    table: pd.DataFrame
    strata: pd.DataFrame
    changed: pd.DataFrame
    scores: pd.DataFrame
    stratum_of_case: dict
    about: dict = field(default_factory=dict)
    notes: tuple = ()
    outcomes: tuple = ()
    trainings: object = None


def ordered(values, index):
    names = sorted(set(values), key=lambda name: (name == "missing", name))
    return pd.Series(pd.Categorical(values, categories=names, ordered=True), index=index)


def scores_of(
    n_cases=60,
    labels=("white matter", "ventricles", "cerebellum"),
    *,
    seed=0,
    gain=0.0,
    metrics=("dice",),
    cases=None,
    attributes=None,
):
    rng = np.random.default_rng(seed)
    cases = cases or [f"case_{n:04d}" for n in range(n_cases)]
    attributes = attributes or {
        "pathology": [("control", "spina_bifida", "other")[n % 3] for n in range(len(cases))],
        "centre": [("A", "B", "B", "C", "A")[n % 5] for n in range(len(cases))],
    }
    rows = []
    for n, case in enumerate(cases):
        for place, label in enumerate(labels):
            hard = 3.0 if attributes and next(iter(attributes.values()))[n] == "spina_bifida" else 1.0
            dice = 1 - hard * (0.05 + 0.03 * place) * rng.gamma(2.0, 0.7)
            dice = float(np.clip(dice + gain * (hard - 1) * rng.uniform(0, 1), 0, 1))
            volume = float(rng.lognormal(3 - place, 0.7))
            row = {"case": case, "label": label, "dice": dice}
            row |= {name: float(rng.gamma(2.0, 2.0) * hard) for name in metrics if name != "dice"}
            n_reference = int(volume * 1000)
            row |= {"n_reference": n_reference, "n_prediction": n_reference, "n_intersection": int(dice * n_reference)}
            row |= {"reference_ml": volume, "prediction_ml": volume * 1.02}
            rows.append(row | {name: values[n] for name, values in attributes.items()})
    return pd.DataFrame(rows), {name: ordered(values, cases) for name, values in attributes.items()}


def strata_of(scores, stratum_of_case, metrics=("dice",), *, half_width=0.03):
    rows = []
    for attribute, of_case in stratum_of_case.items():
        for stratum in of_case.cat.categories:
            for label in scores["label"].unique():
                for metric in metrics:
                    inside = (scores["label"] == label) & (scores["case"].map(of_case.astype(object)) == stratum)
                    row = {"attribute": attribute, "stratum": stratum, "label": label, "metric": metric}
                    row |= describe(scores.loc[inside, metric].to_numpy(dtype=float))
                    for name in STATISTICS:
                        row |= {f"{name}_low": row[name] - half_width, f"{name}_high": row[name] + half_width}
                    rows.append(row)
    return pd.DataFrame(rows).astype({"n": int, "n_undefined": int})


def worst_of(strata):
    rows = []
    for keys, group in strata.groupby(["attribute", "label", "metric"], sort=False):
        metric = METRICS[keys[2]]
        for statistic in ("mean", metric.tail):
            defined = group[group[statistic].notna()].sort_values(statistic, ascending=metric.more_is_better)
            if len(defined):
                worst, best = ((row["stratum"], row[statistic]) for _, row in defined.iloc[[0, -1]].iterrows())
                rows.append((*keys, statistic, *worst, *best, abs(best[1] - worst[1])))
    ends = ["worst_stratum", "worst", "best_stratum", "best"]
    return pd.DataFrame(rows, columns=["attribute", "label", "metric", "statistic", *ends, "gap"])


def all_cases(scores):
    cases = scores["case"].unique()
    return {"all": pd.Series(pd.Categorical(["all"] * len(cases), categories=["all"], ordered=True), index=cases)}


def evaluation_of(
    scores, stratum_of_case, metrics=("dice",), *, method="nnUNetTrainer__nnUNetPlans__3d_fullres", notes=(), about=None
):
    strata = strata_of(scores, stratum_of_case or all_cases(scores), metrics)
    empty = [
        (label, 3, 1, 2.5, 2.5, scores["case"].iloc[0]) if n == 0 else (label, 0, 0, np.nan, np.nan, "")
        for n, label in enumerate(scores["label"].unique())
    ]
    false_positives = pd.DataFrame(
        empty, columns=["label", "n_empty_references", "n_false_positives", "mean_ml", "max_ml", "max_case"]
    )
    options = {
        "metrics": list(metrics),
        "by": list(stratum_of_case),
        "bootstrap": 2000,
        "seed": 0,
        "empty": "undefined",
    }
    about = about or {
        "versions": {"nnunet-dro": "0.1.0", "numpy": "2.2.6"},
        "options": options,
        "definitions": {"interval": "95 % percentile bootstrap, cases resampled within their stratum"},
        "inputs": {"reference": "labelsTr", "prediction": "predictions"},
    }
    return Evaluation(
        method, scores, strata, stratum_of_case or all_cases(scores), worst_of(strata), false_positives, about, notes
    )


def comparison_of(scores_by_method, stratum_of_case, metrics=("dice",), *, notes=()):
    methods = tuple(scores_by_method)
    scores = pd.concat([frame.assign(method=name) for name, frame in scores_by_method.items()], ignore_index=True)
    scores = scores[["method", *[c for c in scores.columns if c != "method"]]]
    strata_by = {name: strata_of(frame, stratum_of_case, metrics) for name, frame in scores_by_method.items()}
    strata = pd.concat([frame.assign(method=name) for name, frame in strata_by.items()], ignore_index=True)
    strata = strata[["method", *[c for c in strata.columns if c != "method"]]]
    baseline, rows, changed = methods[0], [], []
    for method in methods[1:]:
        pairs = zip(strata_by[baseline].to_dict("records"), strata_by[method].to_dict("records"), strict=True)
        for before, after in pairs:
            row = {key: before[key] for key in ("attribute", "stratum", "label", "metric")}
            row |= {"baseline": baseline, "method": method, "n": before["n"], "n_undefined": before["n_undefined"]}
            for name in STATISTICS:
                difference = after[name] - before[name]
                row |= {
                    f"{name}_baseline": before[name],
                    f"{name}_method": after[name],
                    f"{name}_difference": difference,
                }
                row |= {f"{name}_difference_low": difference - 0.03, f"{name}_difference_high": difference + 0.03}
            same = before["mean"] == after["mean"]
            gain = row["mean_difference"]
            row |= {"mean_difference_low_guaranteed": gain - 0.1, "mean_difference_high_guaranteed": gain + 0.1}
            row |= {f"typical_difference{end}": gain + by for end, by in (("", 0), ("_low", -0.02), ("_high", 0.02))}
            row |= {"wilcoxon_p": 1.0 if same else 0.004, "holm_p": 1.0 if same else 0.012}
            rows.append(row | {"wins": 0 if same else before["n"], "ties": before["n"] if same else 0, "losses": 0})
        for metric in metrics:
            left, right = scores_by_method[baseline], scores_by_method[method]
            frame = left[["label", "case"]].assign(
                method=method,
                metric=metric,
                baseline_value=left[metric],
                method_value=right[metric],
                difference=right[metric] - left[metric],
            )
            for attribute, of_case in stratum_of_case.items():
                frame[attribute] = frame["case"].map(of_case.astype(object))
            changed.append(frame[frame["difference"] != 0].sort_values("difference", key=abs, ascending=False))
    table = pd.DataFrame(rows)
    changed = pd.concat(changed, ignore_index=True)
    changed = changed[["method", "metric", *[c for c in changed.columns if c not in ("method", "metric")]]]
    about = {"versions": {"nnunet-dro": "0.1.0"}, "definitions": {"Holm": "over the tests of one metric"}}
    return MadeComparison(methods, table, strata, changed, scores, dict(stratum_of_case), about, notes)
