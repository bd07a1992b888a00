"""Tables in LaTeX: booktabs, with names that span the rows that they hold for."""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from nnunet_dro.naming import NO_VALUE
from nnunet_dro.pages.document import Block, Cell, Table

_SPECIAL = {character: f"\\{character}" for character in "{}$&#%_"}
_SPECIAL |= {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "|": r"\textbar{}",
}
_SPECIAL |= {
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    '"': r"\textquotedbl{}",
    "–": "--",
    "−": "$-$",
}
_SPECIAL |= {
    "×": r"$\times$",
    "∞": r"$\infty$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "→": r"$\rightarrow$",
}
_SPECIAL |= {"▲": r"$\blacktriangle$", "▼": r"$\blacktriangledown$", "³": r"\textsuperscript{3}"}
_SPECIAL |= {"†": r"\textsuperscript{\textdagger}", "‡": r"\textsuperscript{\textdaggerdbl}"}

#: An entry with what is below it.
_BELOW = (
    r"\providecommand{\withbelow}[2]{\begin{tabular}[t]{@{}r@{}}#1\\{\scriptsize #2}\end{tabular}}"
)


def latex(blocks: Sequence[Block], *remarks: str) -> str:
    """The tables among blocks, after remarks as comments; all names are escaped."""
    needed = r"% \usepackage{booktabs,multirow}; names outside ASCII need XeLaTeX or LuaLaTeX"
    tables = [_table(block) for block in blocks if isinstance(block, Table)]
    return "\n".join((needed, *(f"% {remark}" for remark in remarks), _BELOW, *tables))


def escape(text: str) -> str:
    """Text that LaTeX typesets as it is, on one line."""
    flat = " ".join(text.split())
    return re.sub("|".join(map(re.escape, _SPECIAL)), lambda found: _SPECIAL[found.group()], flat)


def _table(table: Table) -> str:
    caption = " ".join(filter(None, (f"{table.title}.", table.about, *table.notes, *table.hints)))
    heads = [rf"\textbf{{{escape(head)}}}" for head in table.heads]
    lines = [
        r"\begin{table}[tb]",
        r"  \centering",
        rf"  \caption{{{escape(caption)}}}",
        rf"  \begin{{tabular}}{{{''.join('r' if column.kind == 'num' else 'l' for column in table.columns)}}}",
        r"    \toprule",
        f"    {' & '.join(heads)} \\\\",
        r"    \midrule",
        *(f"    {line}" for line in _body(table)),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _body(table: Table) -> Iterator[str]:
    """The rows, and rules between those that differ in a name that spans rows."""
    names = [tuple(cell.text for cell in row[: table.n_names]) for row in table.rows]
    for place, row in enumerate(table.rows):
        # The first name in which this row differs from the one above.
        new = next(
            (n for n, name in enumerate(names[place]) if not place or names[place - 1][n] != name),
            0,
        )
        if place and new < table.n_names - 1:
            yield r"\midrule" if new == 0 else rf"\cmidrule{{{new + 1}-{len(table.columns)}}}"
        written = [_cell(cell) for cell in row]
        for n in range(table.n_names - 1):
            alike = takewhile(
                names[place][: n + 1].__eq__, (other[: n + 1] for other in names[place:])
            )
            if n < new:
                written[n] = ""
            elif (n_rows := len(list(alike))) > 1:
                written[n] = rf"\multirow[t]{{{n_rows}}}{{*}}{{{written[n]}}}"
        # A bracket or a star after the line break of the row above would belong to it.
        guard = "{}" if written[0].startswith(("[", "*")) else ""
        yield f"{guard}{' & '.join(written)} \\\\"


def _cell(cell: Cell) -> str:
    text = "--" if cell.text == NO_VALUE else escape(cell.text)
    text = (rf"\textbf{{{text}}}" if "best" in cell.kind else text) + escape("".join(cell.marks))
    return rf"\withbelow{{{text}}}{{{escape('; '.join(cell.below))}}}" if cell.below else text
