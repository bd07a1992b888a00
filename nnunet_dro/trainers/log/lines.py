"""What nnU-Net's log says of the draws before a training, at its start and at its end."""

import math
from collections.abc import Sequence
from importlib.metadata import distributions

import numpy as np

from nnunet_dro import __version__
from nnunet_dro.losses import ImportanceWeights
from nnunet_dro.naming import count
from nnunet_dro.sampling import UNIFORM, ByWeight, EarnedBall, Hardest, HardnessTable, Rule
from nnunet_dro.sampling.learning import learnt
from nnunet_dro.trainers.options import TrainerOptions
from nnunet_dro.trainers.weighted_loss import HardnessWeightedLoss

#: Number of cases of which nothing is found that the last line names, hardest first.
_N_NAMED = 3
#: The rules of `nnUNetTrainerDRO` draw no case more times as often as by chance than this.
_NOTABLE_LIMIT = 8
#: What else a training depends on; a clone that was not installed has no version.
_PACKAGES = ("nnunetv2", "batchgenerators", "batchgeneratorsv2", "torch", "numpy")


def lines_before(
    table: HardnessTable,
    loss: HardnessWeightedLoss,
    options: TrainerOptions,
    *,
    cases: Sequence[str],
    fold: int | str,
    batch_size: int,
) -> list[str]:
    """Warnings of draws that would change nothing or little, each of which says what to do.

    Args:
        table: The table that cases are drawn from.
        loss: The loss of the training.
        options: The options of its trainer.
        cases: The training cases.
        fold: The fold that they are of.
        batch_size: Number of cases in a batch.
    """
    lines = []
    word = {EarnedBall: "earned", Hardest: "hardest"}.get(type(table.rule))
    if word is not None:
        lines += _of_losses_never_learnt(word, loss, options.history.hardness)

    if len(cases) == 1:
        effect = "all draws are those of plain training"
        if len(table) > 1:
            effect = "hardness weighted sampling can choose among its sub-volumes only"
        lines.append(
            f"WARNING: fold {fold} has one training case, {cases[0]}. With a single case, {effect}."
        )
    elif table.rule != UNIFORM or options.auto_beta:
        lines += _of_distinct_cases(table, batch_size)
    return lines


def _of_distinct_cases(table: HardnessTable, batch_size: int) -> list[str]:
    """How much more often a case can be drawn where batches are large for so few cases."""
    n_cases = len(table)
    most_in_a_batch = math.ceil(batch_size / n_cases)
    most = most_in_a_batch * n_cases / batch_size
    if table.replace or most >= _NOTABLE_LIMIT:
        return []
    return [
        f"No case is drawn more than {most:.1f} times as often as by chance, whatever its "
        f"probability: {n_cases} fill batches of {batch_size}, and those of a batch are distinct. "
        "The option `replace` lifts this limit."
    ]


def _of_losses_never_learnt(word: str, loss: HardnessWeightedLoss, hardness: str) -> list[str]:
    """Whether losses may stay where a rule that looks for what is learnt finds nothing."""
    has_dice = any("dice" in type(module).__name__.lower() for module in loss.modules())
    if not has_dice:
        return [
            f"WARNING: `{word}` looks for losses that fall to about -1, as those with a Dice do. "
            "Without one, no case may be drawn more often for its loss. Set "
            "options = DROOptions(share=0.5)."
        ]
    if loss.pooled is not None or hardness == "present":
        return []

    cure = "Leave out `hardLoss`, or give a share, as in `share0.5_hardLoss`."
    if hardness == "pooled":  # which this loss cannot be
        cure = "If patches lack foreground, set options = DROOptions(share=0.5)."
    return [
        "WARNING: the loss of a patch without foreground is about 0, from which "
        f"`{word}` concludes that nothing is found of its case. If a tenth of the last patches is "
        f"such, no case is drawn more often for its loss. {cure}"
    ]


def line_of_versions() -> str:
    """The versions of what a training is made with."""
    # By name: to read what all packages say of themselves takes a tenth of a second.
    packages = [next(iter(distributions(name=name)), None) for name in _PACKAGES]
    versions = [f"{package.name} {package.version}" for package in packages if package]
    return f"Versions: {', '.join([f'nnunet-dro {__version__}', *versions])}."


def line_of_start(
    table: HardnessTable,
    importance: ImportanceWeights | None,
    items: str,
    *,
    uniformly: bool,
) -> str:
    """How cases, or sub-volumes, are drawn."""
    cases = f"{count(len(table), items.removesuffix('s'))} ({table.n_unseen} never seen)"
    if uniformly:
        return f"Cases are drawn uniformly: {cases}"

    if table.rule.needs_losses:
        method = "Hardness weighted sampling"
    elif isinstance(table.rule, ByWeight):
        method = "Cases are drawn by weight"
    else:
        method = "Cases are drawn by group"

    clip = "none"
    if importance is not None:
        clip = f"clipped to [{importance.low:g}, {importance.high:g}]"

    return (
        f"{method}: {cases}, "
        f"{table.rule}, "
        f"importance weights {clip}, "
        f"momentum of the losses {table.momentum:g}, "
        f"share of uniform draws {table.exploration:g}"
    )


def line_of_end(table: HardnessTable) -> str | None:
    """Why the hardest have earned no draws, if so: too short a training, or what they are.

    Only cases that are not learnt are named. Their losses have a cross-entropy, so that they do not
    say how much is found.
    """
    losses = table.losses
    is_seen = not table.n_unseen and not np.isnan(losses).any()
    if not is_seen or len(table) == 1 or not _has_earned_nothing(table.rule):
        return None

    median = float(np.median(losses))
    is_not_learnt = learnt(losses, median=median) == 0
    if is_not_learnt.all():
        return (
            "In the end no case was drawn more often for being hard, because the losses cannot "
            f"tell yet which cases are hard: their median is {median:.2f}. It is 0 or more where "
            "next to nothing is found, or the network is still unsure of what it finds, and about "
            "-1 where all is found. The training was too short: train for longer."
        )
    if not is_not_learnt.any():
        return None

    hardest = [i for i in np.argsort(-losses) if is_not_learnt[i]]
    names = ", ".join(f"{table.cases[i]} (loss {losses[i]:.2f})" for i in hardest[:_N_NAMED])
    return (
        "In the end no case was drawn more often for being hard, because the losses of the hardest "
        f"ones are as high as where next to nothing is found: {names}. They may be too small or "
        "faint to be learnt, or wrongly labelled: look at them with `nnunet-dro suspects`. If they "
        "are neither, nnUNetTrainerDRO_share0.5 draws them more often all the same."
    )


def _has_earned_nothing(rule: Rule) -> bool:
    """Whether a rule that looks for what is learnt draws no case more often for its loss."""
    if isinstance(rule, Hardest):
        return rule.now.earned == 0
    return isinstance(rule, EarnedBall) and rule.beta == 0
