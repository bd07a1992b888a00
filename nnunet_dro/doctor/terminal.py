"""The answer in a few lines for the terminal."""

from rich.console import Group, RenderableType
from rich.text import Text

from nnunet_dro.doctor.answer import Answer, duration
from nnunet_dro.doctor.words import advice, command, heading, notes, why
from nnunet_dro.pages.wording import count, plain


def answer_lines(answer: Answer) -> RenderableType:
    """The finding, what it rests on, and what to do; names from files are shown as they are.

    Args:
        answer: From `examine`.
    """
    lines = [Text(heading(answer), style="bold")]
    lines += [Text(plain(sentence)) for sentence in why(answer)]
    lines += [Text(plain(sentence), style="bold" if n == 0 else "") for n, sentence in enumerate(advice(answer))]
    if shown := command(answer):
        lines.append(Text(f"    {plain(shown)}"))
    if (spread := answer.spread) is not None:
        within = f" and by {spread.within:.3f} from patch to patch" if spread.within == spread.within else ""
        source = f"standard deviation; {answer.spread_from}"
        lines.append(Text(f"Losses differ by {spread.between:.3f} between cases{within} ({source})."))
    if answer.training_seconds:
        lines.append(Text(f"The plain training took {duration(answer.training_seconds)}; a robust one takes as long."))
    lines += [Text(plain(f"Note: {note}"), style="yellow") for note in notes(answer)]
    n_validation = int((~answer.is_training).sum())
    sets = f"{count(answer.diagnosis.n_training, 'training case')}, {count(n_validation, 'validation case')}"
    return Group(*lines, Text(f"{sets}.", style="dim"))
