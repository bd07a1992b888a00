"""Tables in markdown, with numbers rounded to be read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
    columns = [_Column.of(str(name), column) for name, column in table.items()]
    lines = [
        " | ".join(column.padded(column.header) for column in columns),
        " | ".join(column.rule() for column in columns),
    ]
    for row in zip(*(column.cells for column in columns), strict=True):
        cells = [column.padded(cell) for column, cell in zip(columns, row, strict=True)]
        lines.append(" | ".join(cells))
    return "\n".join(f"| {line} |" for line in lines)


@dataclass(frozen=True)
class _Column:
    """A column of a table in markdown, whose cells have the same width."""

    header: str
    cells: list[str]
    is_number: bool  # Numbers stand on the right.

    @classmethod
    def of(cls, name: str, values: pd.Series) -> "_Column":
        return cls(_escaped(name), _cells(values), _is_number(values))

    @property
    def width(self) -> int:
        return max(3, len(self.header), *map(len, self.cells))

    def padded(self, text: str) -> str:
        return text.rjust(self.width) if self.is_number else text.ljust(self.width)

    def rule(self) -> str:
        end = ":" if self.is_number else "-"
        return "-" * (self.width - 1) + end


def shown_rows(table: pd.DataFrame) -> pd.DataFrame:
    """What a page shows of a table: means and differences at the end of the training."""
    for name in ("iteration", "iterations"):
        if name in table:
            table = table[table[name] == table[name].max()]
    dropped = ["iteration", "iterations", "seeds"]
    if any(str(name).startswith("p10 - ") for name in table):
        dropped += ["p10", "share"]
    return table.drop(columns=dropped, errors="ignore")


def methods_by_stratum(table: pd.DataFrame, plain: str) -> pd.DataFrame:
    """A row per method at the end of the training, a column per stratum.

    It shows the mean of the plain method, and the differences of the others. A difference of 0 in
    every training is no measurement: it is the same training.
    """
    rows = table
    if "iteration" in table:
        rows = table[table["iteration"] == table["iteration"].max()]
    means = rows["mean"].map("{:.1f}".format)
    differences = rows[f"- {plain}"].fillna("").replace("+0.0 [+0.0, +0.0]", "the same training")
    cells = rows.assign(shown=differences.where(rows["method"] != plain, means))
    return wide_table(cells, "method", "stratum", "shown")


def wide_table(rows: pd.DataFrame, index: str, columns: str, values: str) -> pd.DataFrame:
    """A row per value of one column and a column per value of another.

    Both are in the order of the rows.
    """
    wide = rows.pivot(index=index, columns=columns, values=values)
    ordered = wide.loc[rows[index].unique(), rows[columns].unique()]
    return ordered.rename_axis(None, axis=1).reset_index()


def _is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _cells(column: pd.Series) -> list[str]:
    if _is_number(column) and not pd.api.types.is_integer_dtype(column):
        texts = _numbers(column.to_numpy(dtype=float, na_value=float("nan")).tolist())
    else:
        texts = [_escaped(str(value)) for value in column]
    is_missing = column.isna().tolist()
    return ["–" if missing else text for text, missing in zip(texts, is_missing, strict=True)]


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
