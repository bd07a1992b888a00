"""What the log warns of before a training starts: draws that would change nothing."""

from collections.abc import Sequence

from nnunet_dro.sampling import EarnedBall, Hardest, HardnessTable
from nnunet_dro.trainers.options import TrainerOptions
from nnunet_dro.trainers.weighted_loss import HardnessWeightedLoss


def warnings_of_draws(
    table: HardnessTable,
    loss: HardnessWeightedLoss,
    options: TrainerOptions,
    *,
    cases: Sequence[str],
    fold: int | str,
) -> list[str]:
    """The lines for the log, each of which says what to do.

    Args:
        table: The table that cases are drawn from.
        loss: The loss of the training.
        options: The options of its trainer.
        cases: The training cases.
        fold: The fold that they are of.
    """
    lines = []
    words = {EarnedBall: "earned", Hardest: "hardest"}
    word = words.get(type(table.rule))
    if word is not None:
        lines += _of_losses_never_learnt(word, loss, options.history.hardness)

    if len(cases) == 1:
        effect = "is the same as plain training"
        if len(table) > 1:
            effect = "can choose among its sub-volumes only"
        lines.append(
            f"WARNING: fold {fold} has one training case, {cases[0]}. With a single case, hardness "
            f"weighted sampling {effect}."
        )
    return lines


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
