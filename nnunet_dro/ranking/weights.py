"""What is ranked at once, and how much it counts in the overall ranking."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.naming import name_some
from nnunet_dro.ranking.options import RankOptions


@dataclass(frozen=True)
class Task:
    """What is ranked at once: a metric of a label."""

    metric: str
    label: str

    @property
    def sign(self) -> float:
        """1 where more is better, and otherwise -1."""
        return METRICS[self.metric].sign


def task_weights(
    metrics: Sequence[str], labels: Sequence[str], options: RankOptions
) -> tuple[tuple[Task, ...], npt.NDArray[np.float64]]:
    """The tasks that are ranked, metric by metric, and the weight of each.

    A task has the weight of its metric times that of its label. What has the weight 0 is not
    ranked.
    """
    metric_weights = parsed_weights(options.metric_weights, metrics, name="metric_weight")
    label_weights = parsed_weights(options.label_weights, labels, name="label_weight")

    weights = {}
    for metric in metrics:
        for label in labels:
            weight = metric_weights[metric] * label_weights[label]
            if weight:
                weights[Task(metric, label)] = weight
    return tuple(weights), np.array(list(weights.values()))


def parsed_weights(entries: Sequence[str], names: Sequence[str], *, name: str) -> dict[str, float]:
    """The weight of each of the names, 1 unless an entry ``NAME=NUMBER`` says otherwise."""
    weights = dict.fromkeys(names, 1.0)
    weighed: set[str] = set()
    for entry in entries:
        weighted, _, number = entry.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        if not (math.isfinite(weight) and weight >= 0 and weighted):
            raise InputError(
                name,
                must="be NAME=NUMBER, 0 or more",
                got=repr(entry),
                cure=f"Write, for example, {names[0]}=2; what has the weight 0 is not ranked.",
            )
        if weighted not in weights:
            raise InputError(
                name,
                must="name what all evaluations have",
                got=repr(entry),
                cure=f"Choose from: {name_some(names, at_most=20)}.",
            )
        if weighted in weighed:
            raise InputError(
                name,
                must="weigh each once",
                got=f"{weighted!r} twice",
                cure="Leave one out.",
            )
        weighed.add(weighted)
        weights[weighted] = weight

    if not any(weights.values()):
        raise InputError(
            name,
            must="leave something to rank",
            got="only zeros",
            cure="Leave one of them out.",
        )
    return weights
