"""Warnings of a training that looks at too few cases."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from nnunet_dro.trainers.logs.epoch_summary import HardnessSummary

#: Below this share of effective cases a training is warned of.
_SMALL_SHARE = 0.1
#: So many epochs in a row in which the mean loss rises are no chance.
_N_RISING = 10
_CURE = (
    "Draw less by hardness: a larger `share<s>` or a smaller `beta<x>` in the trainer's name, or a larger `explore<e>`."
)


def concentration_warnings(summaries: Sequence[HardnessSummary], n_items: int) -> list[str]:
    """Warnings that became true in the last epoch.

    Args:
        summaries: The summaries of the epochs so far.
        n_items: Number of cases or sub-volumes.
    """
    warnings = []
    items = summaries[-1].table.items if summaries and summaries[-1].table else "cases"
    if _began(summaries, lambda so_far: _few(so_far, n_items)):
        effective = f"{summaries[-1].effective_cases:.1f} of {n_items}"
        warnings.append(f"WARNING: {effective} {items} are effective, which is less than a tenth. {_CURE}")
    if _began(summaries, _rises_while_concentrating):
        warnings.append(
            f"WARNING: the mean loss of the {items} has risen for {_N_RISING} epochs while the draws went to fewer of "
            f"them: what is learnt of the hardest is forgotten of the others. {_CURE}"
        )
    return warnings


def _began(summaries: Sequence[HardnessSummary], holds: Callable[[Sequence[HardnessSummary]], bool]) -> bool:
    return holds(summaries) and not holds(summaries[:-1])


def _few(summaries: Sequence[HardnessSummary], n_items: int) -> bool:
    return bool(summaries) and summaries[-1].effective_cases < _SMALL_SHARE * n_items


def _rises_while_concentrating(summaries: Sequence[HardnessSummary]) -> bool:
    last = summaries[-_N_RISING - 1 :]
    if len(last) <= _N_RISING or not last[-1].effective_cases < last[0].effective_cases:
        return False
    return all(later.mean_loss > earlier.mean_loss for earlier, later in pairwise(last))
