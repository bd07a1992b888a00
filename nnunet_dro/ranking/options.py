"""The options of ranking, once: for Python, the command line and summary.json."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from nnunet_dro.choices import RankingScheme, choice_of
from nnunet_dro.evaluation.inputs.flags import Flag
from nnunet_dro.evaluation.inputs.options import normalise


@dataclass(frozen=True, kw_only=True)
class RankOptions:
    """How teams are ranked.

    What the help of each option says, and ``by`` as in `CompareOptions`.
    """

    scheme: Annotated[RankingScheme, Flag("Ranking scheme; the others' ranks stand beside it.")] = (
        RankingScheme.MEAN
    )
    by: Annotated[
        Sequence[str],
        Flag(
            "Columns to rank by, as for evaluate; default: as in the first evaluation.",
            is_column=True,
        ),
    ] = ()
    intersect: Annotated[bool, Flag("Rank by the cases that all evaluations have.")] = False
    metric_weights: Annotated[
        Sequence[str],
        Flag(
            "Weight of a metric in the overall ranking (repeatable): hd95=0.5; default: 1; 0 does "
            "not rank it.",
            name="metric_weight",
        ),
    ] = ()
    label_weights: Annotated[
        Sequence[str],
        Flag(
            "Weight of a label in the overall ranking (repeatable): tumour=2; default: 1.",
            name="label_weight",
        ),
    ] = ()
    n_resamples: Annotated[
        int, Flag("Bootstrap samples to rank; 0 for none.", name="bootstrap", least=0)
    ] = 1000
    seed: Annotated[int, Flag("Random seed of the bootstrap samples.", least=0)] = 0
    aggregate_only: Annotated[
        bool, Flag("Write nothing that names or shows a case, for hidden test sets.")
    ] = False

    def __post_init__(self) -> None:
        normalise(self, "by", "metric_weights", "label_weights")
        object.__setattr__(self, "scheme", choice_of(RankingScheme, self.scheme, name="scheme"))
