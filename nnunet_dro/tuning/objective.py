"""The objective of a study: a statistic of the validation cases, in words and as a number."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd
from joblib import cpu_count

from nnunet_dro.evaluation.evaluating.evaluation import evaluate
from nnunet_dro.evaluation.scoring.metrics import COMPUTED, METRICS
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.evaluation.stratifying.stratify import stratify_all
from nnunet_dro.files.case_table import read_cases

_FORM = re.compile(r"(\S+)(?:\s+of\s+(\S+))?(?:\s+by\s+(.+?)\s+(worst|mean))?")

_EXAMPLE = 'Write, for example, "mean", "p10 of dice" or "p10 by centre worst".'


@dataclass(frozen=True)
class Objective:
    """A statistic to optimise.

    Without ``by``, it is the statistic of all cases together; with it, that of the worst stratum or
    the mean over the strata.
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
        text = f"{self.statistic} of {self.metric}"
        if self.by is not None:
            text += f" by {self.by} {self.over}"
        return text

    def value(self, strata: pd.DataFrame) -> float:
        """The value of the objective, a fraction or mm.

        The value of a stratum is the mean over its labels. Strata without a value do not count.

        Args:
            strata: Rows of strata.csv, with the objective's statistic as a column.

        Raises:
            ValueError: If no stratum has a value.
        """
        rows = strata[strata["metric"] == self.metric]
        strata_names = rows["stratum"].astype(str)
        values = rows.groupby(strata_names)[self.statistic].mean().dropna()
        if values.empty:
            raise ValueError(
                f"`{self.text}` must be computed from cases with a value, got none. "
                "Check the validation's label maps."
            )

        if self.over == "mean":
            return float(values.mean())
        if self.maximise:
            return float(values.min())
        return float(values.max())


def parse_objective(text: str) -> Objective:
    """Read ``STATISTIC [of METRIC] [by COLUMN worst|mean]``.

    `strata_for` checks whether the column exists.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            "`objective` must be STATISTIC [of METRIC] [by COLUMN worst|mean], "
            f"got {text!r}. {_EXAMPLE}"
        )

    statistic, metric_or_none, by, over_or_none = match.groups()
    if statistic not in STATISTICS:
        raise ValueError(
            f"`objective` must begin with a statistic, got {statistic!r} in {text!r}. Choose from: "
            f"{', '.join(STATISTICS)}."
        )

    metric = metric_or_none or "dice"
    # What is no better the larger, or the smaller, it is cannot be optimised.
    computed = {name: METRICS[name] for name in COMPUTED}
    choices = [
        name for name, choice in computed.items() if not choice.on_lesions and not choice.is_signed
    ]
    if metric not in choices:
        raise ValueError(
            f"`objective` must have a known metric, got {metric!r} in {text!r}. Choose from: "
            f"{', '.join(choices)}."
        )

    over: Literal["worst", "mean"] = "mean" if over_or_none == "mean" else "worst"
    return Objective(statistic, metric, by, over)


def strata_for(
    objective: Objective, cases: Path | None, validation_cases: Collection[str]
) -> list[str]:
    """The strata of the validation cases, such as ``case_1=A``; none without a column.

    Errors say why the cases cannot be divided, before anything is trained.
    """
    if objective.by is None:
        return []
    if cases is None:
        raise ValueError(
            f"`objective` needs a case table for `by {objective.by}`, got none. Write cases.csv "
            "into the dataset's raw or preprocessed folder, or name a table with --cases."
        )

    table = read_cases(cases, validation_cases)
    (strata,) = stratify_all(table, [objective.by], validation_cases).values()
    return [f"{case}={stratum}" for case, stratum in strata.items()]


def score(
    objective: Objective, *, references: Path, fold: Path, dataset_json: Path, cases: Path | None
) -> float:
    """Compute the objective of a fold's validation predictions."""
    by = []
    if objective.by:
        by.append(objective.by)
    else:
        cases = None

    # 374 mm where one of the two lacks a label: finding nothing is no better than finding it in the
    # wrong place.
    is_distance = METRICS[objective.metric].unit == "mm"
    empty = "brats" if is_distance else "undefined"

    evaluation = evaluate(
        references,
        fold,
        dataset_json=dataset_json,
        cases=cases,
        by=by,
        overall=False,
        metrics=[objective.metric],
        empty=empty,
        n_resamples=0,
        jobs=cpu_count(),
    )
    return objective.value(evaluation.strata)
