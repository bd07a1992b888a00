"""Tables in markdown, with numbers rounded to be read."""

import math
from collections.abc import Sequence

import pandas as pd

_SIGNIFICANT_DIGITS = 3
#: Up to this ratio of largest to smallest, the numbers of a column are shown with the same
#: decimals.
_WIDEST_RANGE = 1e4
#: A difference of 0 in every training is no measurement, and what a page says of it.
SAME_TRAINING = ("+0.0 [+0.0, +0.0]", "the same training")


def markdown_table(table: pd.DataFrame) -> str:
    """A table in markdown, numbers to the right and rounded to be read; the index is left out.

    The numbers of a column have the same decimals, so that its largest has three significant
    digits. Where a column spans more than four powers of ten, every number has three significant
    digits of its own. Missing values are a dash.
    """
    columns = [_column(str(name), values) for name, values in table.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in zip(*columns, strict=True))


def _column(name: str, values: pd.Series) -> list[str]:
    """Header, rule and cells of a column in markdown, all of the same width."""
    texts = [_escaped(name), *_cells(values)]
    width = max(3, *map(len, texts))
    rule = "-" * width
    padded = [text.ljust(width) for text in texts]
    if _is_number(values):
        rule = f"{rule[1:]}:"
        padded = [text.rjust(width) for text in texts]
    return [padded[0], rule, *padded[1:]]


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

    It shows the mean of the plain method, and the differences of the others.
    """
    rows = table
    if "iteration" in table:
        rows = table[table["iteration"] == table["iteration"].max()]
    means = rows["mean"].map("{:.1f}".format)
    differences = rows[f"- {plain}"].fillna("").replace(*SAME_TRAINING)
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
