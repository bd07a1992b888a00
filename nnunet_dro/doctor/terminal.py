"""The answer in a few lines for the terminal."""

from rich.console import RenderableType

from nnunet_dro.doctor.answer import Answer, duration
from nnunet_dro.doctor.words import advice, command, heading, notes, why
from nnunet_dro.pages.document import Block, Heading, Note, Prose
from nnunet_dro.pages.terminal import printed
from nnunet_dro.pages.wording import count


def answer_lines(answer: Answer) -> RenderableType:
    """The finding, what it rests on, and what to do; names from files are shown as they are.

    Args:
        answer: From `examine`.
    """
    first, *others = advice(answer)
    blocks: list[Block] = [Heading(heading(answer)), Prose(why(answer)), Prose(first, kind="first"), Prose(others)]
    if shown := command(answer):
        blocks.append(Prose(shown, kind="command"))
    if (spread := answer.spread) is not None:
        within = f" and by {spread.within:.3f} from patch to patch" if spread.within == spread.within else ""
        source = f"standard deviation; {answer.spread_from}"
        blocks.append(Prose(f"Losses differ by {spread.between:.3f} between cases{within} ({source}).", kind=""))
    if answer.training_seconds:
        took = f"The plain training took {duration(answer.training_seconds)}; a robust one takes as long."
        blocks.append(Prose(took, kind=""))
    n_validation = int((~answer.is_training).sum())
    sets = f"{count(answer.diagnosis.n_training, 'training case')}, {count(n_validation, 'validation case')}"
    return printed([*blocks, *map(Note, notes(answer)), Prose(f"{sets}.")])
