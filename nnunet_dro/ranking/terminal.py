"""The table of a ranking for the terminal: a row per team, within 80 columns."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nnunet_dro.evaluation.report.formatting import attribute_title
from nnunet_dro.pages.svg import shortened
from nnunet_dro.pages.wording import count, plain, share
from nnunet_dro.ranking.ranking import Ranking
from nnunet_dro.ranking.words import findings, heading, main_score, overall, rank_range, rank_text, rule, size

#: Letters of the name of a team, and of the heading of an attribute.
_NAME, _HEADING = 28, 14

#: A note may list the cases of a team; the page has all notes.
_MOST_NOTES = 4


def ranking_table(ranking: Ranking) -> RenderableType:
    """The ranks, their intervals, and the ranks by the worst stratum of up to two attributes.

    Args:
        ranking: The ranking.

    Returns:
        A renderable for rich's console. Names are shown as they are, long ones shortened; all are in the files.
    """
    shown = Table(box=None, pad_edge=False, padding=(0, 1))
    title, scores = main_score(ranking)
    attributes = list(ranking.strata)[:2]
    shown.add_column("rank", justify="right", no_wrap=True)
    shown.add_column("team", no_wrap=True, max_width=_NAME)
    shown.add_column(title, justify="right")
    with_samples = not ranking.bootstrap.empty
    if with_samples:
        shown.add_column("95 % of ranks", justify="right")
        shown.add_column("first in", justify="right")
    for attribute in attributes:
        name = shortened(plain(attribute_title(attribute)), _HEADING)
        shown.add_column(Text(f"worst {name}"), justify="right")
    samples = ranking.bootstrap[ranking.bootstrap["scheme"] == ranking.scheme.value].set_index("team")
    ranks = overall(ranking)
    worst = [overall(ranking, kind="worst", attribute=attribute) for attribute in attributes]
    for team in ranking.teams:
        cells = [rank_text(ranks[team]), shortened(plain(team), _NAME), scores[team]]
        if with_samples:
            row = samples.loc[team]
            cells += [rank_range(row["rank_low"], row["rank_high"]), share(row["share_1"])]
        cells += [rank_text(of_attribute[team]) for of_attribute in worst]
        shown.add_row(*(Text(cell) for cell in cells))
    lines = [rule(ranking), *findings(ranking)]
    notes = [Text(plain(f"Note: {note}"), style="yellow") for note in ranking.notes[:_MOST_NOTES]]
    if n_more := len(ranking.notes) - len(notes):
        notes.append(Text(f"{count(n_more, 'more note')} in the page.", style="yellow"))
    first = Text(plain(f"{heading(ranking)} ({size(ranking)})"), style="bold")
    return Group(first, shown, *(Text(plain(sentence)) for sentence in lines), *notes)
