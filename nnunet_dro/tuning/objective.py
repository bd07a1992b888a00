"""The objective of a study: a statistic of the validation cases, in words and as a number."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd
from joblib import cpu_count

from nnunet_dro.evaluation.evaluation import evaluate
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.evaluation.stratifying.stratify import stratify_all
from nnunet_dro.files.case_table import read_cases

_FORM = re.compile(r"(\S+)(?:\s+of\s+(\S+))?(?:\s+by\s+(.+?)\s+(worst|mean))?")

_EXAMPLE = 'Write, for example, "mean", "p10 of dice" or "p10 by centre worst".'


@dataclass(frozen=True)
class Objective:
    """A statistic to optimise, of the worst stratum of ``by`` or the mean of its strata.

    None is one of all cases.
    """

    statistic: str
    metric: str = "dice"
    by: str | None = None
    over: Literal["worst", "mean"] = "worst"

    @property
    def maximise(self) -> bool:
        """Whether larger values are better."""
        return STATISTICS[self.statistic].more_is_better(METRICS[self.metric])

    @property
    def text(self) -> str:
        """The objective in the words that `parse_objective` reads, including the metric."""
        return f"{self.statistic} of {self.metric}" + (
            "" if self.by is None else f" by {self.by} {self.over}"
        )

    def value(self, strata: pd.DataFrame) -> float:
        """A fraction, or mm: the mean over the labels, of the worst stratum with a value or as a mean of these."""
        rows = strata[strata["metric"] == self.metric]
        values = rows.groupby(rows["stratum"].astype(str))[self.statistic].mean().dropna()
        if values.empty:
            raise ValueError(
                f"`{self.text}` must be computed from cases with a value, got none. Check the validation's label maps."
            )
        if self.over == "mean":
            return float(values.mean())
        return float(values.min() if self.maximise else values.max())


def parse_objective(text: str) -> Objective:
    """Read ``STATISTIC [of METRIC] [by COLUMN worst|mean]``.

    `check_objective` checks whether the column exists.
    """
    if not (match := _FORM.fullmatch(text.strip())):
        raise ValueError(
            f"`objective` must be STATISTIC [of METRIC] [by COLUMN worst|mean], got {text!r}. {_EXAMPLE}"
        )
    statistic, metric, by, over = match.groups()
    if statistic not in STATISTICS:
        cure = f"Choose from: {', '.join(STATISTICS)}."
        raise ValueError(
            f"`objective` must begin with a statistic, got {statistic!r} in {text!r}. {cure}"
        )
    metric = metric or "dice"
    known = [
        name for name, of_name in METRICS.items() if not (of_name.on_lesions or of_name.is_signed)
    ]
    if metric not in known:
        cure = f"Choose from: {', '.join(known)}."
        raise ValueError(
            f"`objective` must have a known metric, got {metric!r} in {text!r}. {cure}"
        )
    return Objective(statistic, metric, by, "mean" if over == "mean" else "worst")


def check_objective(
    objective: Objective, cases: Path | None, validation_cases: Collection[str]
) -> None:
    """Check, before anything is trained, that the validation cases can be divided as the objective requires."""
    if objective.by is None:
        return
    if cases is None:
        cure = "Write cases.csv into the dataset's raw or preprocessed folder, or name a table with --cases."
        raise ValueError(
            f"`objective` needs a case table for `by {objective.by}`, got none. {cure}"
        )
    stratify_all(read_cases(cases), [objective.by], validation_cases)


def score(
    objective: Objective, *, references: Path, fold: Path, dataset_json: Path, cases: Path | None
) -> float:
    """Compute the objective of a fold's validation predictions."""
    evaluation = evaluate(
        references,
        fold,
        dataset_json=dataset_json,
        cases=cases if objective.by else None,
        by=[objective.by] if objective.by else (),
        overall=False,
        metrics=[objective.metric],
        # 374 mm where one of the two lacks a label: finding nothing is no better than finding it in
        # the wrong place.
        empty="brats" if METRICS[objective.metric].unit == "mm" else "undefined",
        n_resamples=0,
        jobs=cpu_count(),
    )
    return objective.value(evaluation.strata)
