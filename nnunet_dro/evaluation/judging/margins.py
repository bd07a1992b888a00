"""Whether a method is worse than the baseline by more than a margin, from the bounds of the mean difference.

The bounds are those that assume only the limits of the score, at every number of cases: Student's t knows nothing of a
failure that the sample does not show, and would call a method not worse that fails in one case of thirty.
"""

import pandas as pd

from nnunet_dro.evaluation.scoring.metrics import METRICS, is_bounded
from nnunet_dro.evaluation.statistics.columns import GUARANTEED_DIFFERENCE

BETTER, NOT_WORSE, WORSE, CANNOT_TELL = "better", "not worse", "worse", "cannot tell"


def margin_verdicts(table: pd.DataFrame, margin: float) -> list[str]:
    """What the bounds of the mean difference for verdicts say in each row of a comparison.

    Returns:
        For each row `BETTER` if all between the bounds is an improvement, `NOT_WORSE` if no more than the margin is
        lost at the worse one, `WORSE` if all is a loss, and otherwise `CANNOT_TELL`: also of distances, which have no
        limits and so no such bounds.
    """
    verdicts = []
    for metric, low, high in table[["metric", *GUARANTEED_DIFFERENCE]].itertuples(index=False):
        allowed = margin / 100 if is_bounded(metric) else margin
        least, most = (low, high) if METRICS[metric].more_is_better else (-high, -low)
        if least > 0:
            verdicts.append(BETTER)
        elif least >= -allowed:
            verdicts.append(NOT_WORSE)
        else:
            verdicts.append(WORSE if most < 0 else CANNOT_TELL)
    return verdicts
