"""Tables in markdown, with numbers rounded to be read."""

import math
from collections.abc import Sequence

import pandas as pd

_SIGNIFICANT_DIGITS = 3
#: Up to this ratio of largest to smallest, the numbers of a column are shown with the same
#: decimals.
_WIDEST_RANGE = 1e4


def markdown_table(table: pd.DataFrame) -> str:
    """A table in markdown, numbers to the right and rounded to be read; the index is left out.

    The numbers of a column have the same decimals, so that its largest has three significant
    digits. Where a column spans more than four powers of ten, every number has three significant
    digits of its own. Missing values are a dash.
    """
    columns = [_cells(table.iloc[:, i]) for i in range(table.shape[1])]
    headers = [_escaped(str(name)) for name in table.columns]
    sides = [">" if _is_number(table.iloc[:, i]) else "<" for i in range(table.shape[1])]
    widths = [
        max(3, len(header), *map(len, cells))
        for header, cells in zip(headers, columns, strict=True)
    ]

    def line(cells: Sequence[str]) -> str:
        padded = [
            f"{cell:{side}{width}}" for cell, side, width in zip(cells, sides, widths, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    rule = [
        "-" * (width - 1) + (":" if side == ">" else "-")
        for width, side in zip(widths, sides, strict=True)
    ]
    return "\n".join(
        [line(headers), line(rule), *(line(row) for row in zip(*columns, strict=True))]
    )


def shown_rows(table: pd.DataFrame) -> pd.DataFrame:
    """What a page shows of a table: means and differences at the end of the training."""
    for name in ("iteration", "iterations"):
        if name in table:
            table = table[table[name] == table[name].max()]
    dropped = ["iteration", "iterations", "seeds"]
    dropped += ["p10", "share"] if any(str(name).startswith("p10 - ") for name in table) else []
    return table.drop(columns=dropped, errors="ignore")


def methods_by_stratum(table: pd.DataFrame, plain: str) -> pd.DataFrame:
    """A row per method at the end of the training, a column per stratum.

    Plain's mean, and the others' differences.
    """
    rows = table[table["iteration"] == table["iteration"].max()] if "iteration" in table else table
    means = rows["mean"].map("{:.1f}".format)
    cells = rows.assign(shown=rows[f"- {plain}"].fillna("").where(rows["method"] != plain, means))
    return wide_table(cells, "method", "stratum", "shown")


def wide_table(rows: pd.DataFrame, index: str, columns: str, values: str) -> pd.DataFrame:
    """A row per value of one column and a column per value of another, both in the order of the rows."""
    wide = rows.pivot(index=index, columns=columns, values=values)
    return (
        wide.loc[rows[index].unique(), rows[columns].unique()]
        .rename_axis(None, axis=1)
        .reset_index()
    )


def _is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _cells(column: pd.Series) -> list[str]:
    missing = column.isna().tolist()
    if _is_number(column) and not pd.api.types.is_integer_dtype(column):
        texts = _numbers(
            [float("nan") if gone else float(v) for v, gone in zip(column, missing, strict=True)]
        )
    else:
        texts = [_escaped(str(value)) for value in column]
    return ["–" if gone else text for text, gone in zip(texts, missing, strict=True)]


def _numbers(values: Sequence[float]) -> list[str]:
    sizes = [abs(value) for value in values if math.isfinite(value) and value != 0]
    if sizes and max(sizes) / min(sizes) > _WIDEST_RANGE:
        return [f"{value:.{_SIGNIFICANT_DIGITS}g}" for value in values]
    order = math.floor(math.log10(max(sizes))) if sizes else _SIGNIFICANT_DIGITS - 1
    if order < -_SIGNIFICANT_DIGITS:
        return [f"{value:.{_SIGNIFICANT_DIGITS - 1}e}" for value in values]
    decimals = max(0, _SIGNIFICANT_DIGITS - 1 - order)
    # Adding 0 turns the -0 that rounding leaves into 0.
    return [f"{round(value, decimals) + 0.0:.{decimals}f}" for value in values]


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
