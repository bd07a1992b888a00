"""The answer on the terminal."""

import math

from rich.console import RenderableType

from nnunet_dro.doctor.advice import advice, command
from nnunet_dro.doctor.answer import Answer, duration
from nnunet_dro.doctor.words import heading, notes, why
from nnunet_dro.naming import count
from nnunet_dro.pages.document import Block, Heading, Note, Prose
from nnunet_dro.pages.terminal import printed


def answer_lines(answer: Answer) -> RenderableType:
    """The finding, what it rests on, and what to do, for rich's console.

    Names from files are shown as they are.
    """
    first, *others = advice(answer)
    blocks: list[Block] = [
        Heading(heading(answer)),
        Prose(why(answer)),
        Prose(first, kind="first"),
        Prose(others),
    ]
    next_command = command(answer)
    if next_command:
        blocks.append(Prose(next_command, kind="command"))

    spread = answer.spread
    if spread is not None:
        differ = f"Losses differ by {spread.between:.3f} between cases"
        if not math.isnan(spread.within):
            differ += f" and by {spread.within:.3f} from patch to patch"
        text = f"{differ} (standard deviation; {answer.spread_from})."
        blocks.append(Prose(text, kind=""))
    if answer.training_seconds:
        took = duration(answer.training_seconds)
        text = f"The plain training took {took}; a robust one takes as long."
        blocks.append(Prose(text, kind=""))

    training = count(answer.diagnosis.n_training, "training case")
    validation = count(int((~answer.is_training).sum()), "validation case")
    blocks += map(Note, notes(answer))
    blocks.append(Prose(f"{training}, {validation}."))
    return printed(blocks)
