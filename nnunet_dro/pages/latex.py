"""Tables in LaTeX: booktabs, with names that span the rows that they hold for."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import takewhile

from nnunet_dro.naming import NO_VALUE
from nnunet_dro.pages.document import Block, Cell, Table

#: Characters that LaTeX would not typeset as they are, and how they are written for it.
_ESCAPED = str.maketrans(
    {
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "%": r"\%",
        "_": r"\_",
        "\\": r"\textbackslash{}",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "|": r"\textbar{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        # Not \textquotedbl, which LaTeX's own encoding of fonts (OT1) lacks.
        '"': r"\char34{}",
        "–": "--",
        "−": "$-$",
        "×": r"$\times$",
        "∞": r"$\infty$",
        "≤": r"$\le$",
        "≥": r"$\ge$",
        "→": r"$\rightarrow$",
        "▲": r"$\bigtriangleup$",
        "▼": r"$\bigtriangledown$",
        "³": r"\textsuperscript{3}",
        "†": r"\textsuperscript{\textdagger}",
        "‡": r"\textsuperscript{\textdaggerdbl}",
    }
)

#: An entry with what is below it.
_BELOW = (
    r"\providecommand{\withbelow}[2]{\begin{tabular}[t]{@{}r@{}}#1\\{\scriptsize #2}\end{tabular}}"
)


def latex(blocks: Sequence[Block], *remarks: str) -> str:
    """The tables among blocks, after remarks as comments; all names are escaped."""
    needed = r"% \usepackage{booktabs,multirow}; names outside ASCII need XeLaTeX or LuaLaTeX"
    comments = [f"% {remark}" for remark in remarks]
    tables = [_table(block) for block in blocks if isinstance(block, Table)]
    return "\n".join([needed, *comments, _BELOW, *tables])


@lru_cache(maxsize=1 << 14)
def escape_latex(text: str) -> str:
    """Text that LaTeX typesets as it is, on one line."""
    return " ".join(text.split()).translate(_ESCAPED)


def _table(table: Table) -> str:
    sentences = [f"{table.title}.", table.about, *table.key]
    caption = " ".join(sentence for sentence in sentences if sentence)
    alignment = "".join("r" if column.kind == "num" else "l" for column in table.columns)
    heads = [rf"\textbf{{{escape_latex(head)}}}" for head in table.heads]
    lines = [
        r"\begin{table}[tb]",
        r"  \centering",
        rf"  \caption{{{escape_latex(caption)}}}",
        rf"  \begin{{tabular}}{{{alignment}}}",
        r"    \toprule",
        rf"    {' & '.join(heads)} \\",
        r"    \midrule",
        *(f"    {line}" for line in _body(table)),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _body(table: Table) -> Iterator[str]:
    """The rows, and rules between those that differ in a name that spans rows.

    All names but the last span the rows that have them.
    """
    n_spanning = table.n_names - 1
    names = [tuple(cell.text for cell in row[: table.n_names]) for row in table.rows]

    for place, row in enumerate(table.rows):
        new = 0
        if place > 0:
            new = _first_difference(names[place - 1], names[place])
            if new == 0 and n_spanning > 0:
                yield r"\midrule"
            elif new < n_spanning:
                yield rf"\cmidrule{{{new + 1}-{len(table.columns)}}}"

        written = [_cell(cell) for cell in row]
        for n in range(n_spanning):
            if n < new:
                written[n] = ""
                continue
            n_rows = _n_alike(names[place:], n + 1)
            if n_rows > 1:
                written[n] = rf"\multirow[t]{{{n_rows}}}{{*}}{{{written[n]}}}"

        # A bracket or a star after the line break of the row above would belong to it.
        guard = "{}" if written[0].startswith(("[", "*")) else ""
        yield rf"{guard}{' & '.join(written)} \\"


def _first_difference(above: Sequence[str], names: Sequence[str]) -> int:
    """The index of the first name that differs from that of the row above; 0 if none does."""
    for n, name in enumerate(names):
        if above[n] != name:
            return n
    return 0


def _n_alike(rows: Sequence[tuple[str, ...]], n_names: int) -> int:
    """The number of rows, from the first one on, that have its first names."""
    first = rows[0][:n_names]
    alike = takewhile(lambda names: names[:n_names] == first, rows)
    return len(list(alike))


def _cell(cell: Cell) -> str:
    text = "--" if cell.text == NO_VALUE else escape_latex(cell.text)
    if "best" in cell.kind:
        text = rf"\textbf{{{text}}}"
    text += escape_latex("".join(cell.marks))

    if not cell.below:
        return text
    below = escape_latex("; ".join(cell.below))
    return rf"\withbelow{{{text}}}{{{below}}}"
