"""The table of an exploration for the terminal, within 80 columns."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nnunet_dro.evaluation.report.formatting import number, p_value, unit_sign
from nnunet_dro.exploration.exploration import Exploration
from nnunet_dro.exploration.words import counted, findings, heading, on_table, size, title
from nnunet_dro.pages.wording import plain, share


def exploration_table(exploration: Exploration) -> RenderableType:
    """The combinations that were tested, those that were confirmed in bold.

    Args:
        exploration: The exploration.

    Returns:
        A renderable for rich's console. Names are shown as they are.
    """
    metric = exploration.known_metric
    several = len(exploration.labels) > 1
    parts: list[RenderableType] = [Text(plain(heading(exploration)), style="bold"), Text(plain(size(exploration)))]
    if len(exploration.table):
        shown = Table(box=None, pad_edge=False, padding=(0, 1))
        shown.add_column("combination", overflow="fold")
        if several:
            shown.add_column("label", overflow="fold")
        for name in ("n", f"mean ({unit_sign(metric)})", "rest", "worse in", "Holm p", ""):
            shown.add_column(name, justify="right", no_wrap=True)
        for row in exploration.table.to_dict("records"):
            cells = [title(row), *([str(row["label"])] if several else []), counted(row)]
            cells += [number(row["mean_test"], metric), number(row["mean_rest_test"], metric)]
            cells += [share(row["share_lower"]), p_value(row["holm_p"])]
            cells.append("confirmed" if row["confirmed"] else "no")
            style = "bold" if row["confirmed"] else "dim"
            shown.add_row(*(Text(plain(cell)) for cell in cells), style=style)
        parts += [shown, Text(on_table(exploration), style="dim")]
    parts += [Text(plain(sentence)) for sentence in findings(exploration)]
    parts += [Text(plain(f"Note: {note}"), style="yellow") for note in exploration.notes]
    return Group(*parts)
