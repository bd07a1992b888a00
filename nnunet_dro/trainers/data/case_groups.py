"""The groups of the training cases, from the columns of the dataset's case table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.files.case_table import (
    MISSING,
    attributes_of,
    case_table_places,
    find_case_table,
    read_cases,
)
from nnunet_dro.naming import name_some, spelt_like
from nnunet_dro.nnunet.folders import dataset_folder

#: A column with more groups (ages, volumes), or with fewer than two cases per group, is not worth
#: watching in a log.
_MOST_GROUPS = 12

#: Numbers are measured (a width, an age) unless they are few and small (a grade, a numbered site).
_MOST_NUMBERS = 5
_LARGEST_NUMBER = 99


def dataset_folders(trainer: Any) -> tuple[Path, Path | None]:
    """The preprocessed and the raw folder of a trainer's dataset, for `find_case_table`."""
    raw = dataset_folder("nnUNet_raw", trainer.plans_manager.dataset_name)
    return Path(trainer.preprocessed_dataset_folder_base), raw


def groups_of(trainer: Any, cases: Sequence[str], *, column: str) -> list[str]:
    """The group of each training case of a trainer, by a column of the case table.

    They are in the order of the cases.
    """
    groups, path = _entries(trainer, cases, column)
    if groups.nunique() == 1:
        raise ValueError(
            f"`{column}` must divide the training cases of fold {trainer.fold} into at least two "
            f"groups, got only {groups.iloc[0]!r} in {path}. Choose another column or fold."
        )
    return [str(group) for group in groups]


def weights_of(trainer: Any, cases: Sequence[str], *, column: str) -> list[str]:
    """The weight of each training case of a trainer, as text.

    The weights are finite numbers >= 0 in a column of the case table.
    """
    weights, path = _entries(trainer, cases, column)
    numbers = pd.to_numeric(weights, errors="coerce")
    is_valid = numbers.between(0, np.inf, inclusive="left")
    wrong = weights.index[~is_valid].tolist()
    if wrong:
        raise ValueError(
            f"`{column}` must have a finite number >= 0 as the weight of every training case in "
            f"{path}, got {weights[wrong[0]]!r} for {name_some(wrong)}. Correct it, or leave out "
            "`asWeights` if these are groups."
        )

    if not numbers.any():
        raise ValueError(
            f"`{column}` must have a weight > 0 for a training case of fold {trainer.fold} in "
            f"{path}, got 0 for all. Correct the column, or choose another one."
        )
    return [str(number) for number in numbers]


def _entries(trainer: Any, cases: Sequence[str], column: str) -> "tuple[pd.Series[str], Path]":
    """The entry of each training case in a column of the case table, and the path of the table."""
    column_of_cases, path = table_column(trainer, cases, column)
    entries = column_of_cases.reindex(list(cases), fill_value=MISSING)
    without = entries.index[entries == MISSING].tolist()
    if without:
        raise ValueError(
            f"`{column}` must have an entry for every training case in {path}, got none for "
            f"{name_some(without)}. Fill them in."
        )
    return entries, path


def table_column(
    trainer: Any, cases: Sequence[str], column: str, *, meaning: str = ""
) -> "tuple[pd.Series[str], Path]":
    """A column of a trainer's case table, by case, and the path of the table.

    ``meaning`` says in an error what to write into the column.
    """
    folders = dataset_folders(trainer)
    path = find_case_table(*folders)
    if path is None:
        places = " or ".join(str(place) for place in case_table_places(*folders))
        raise FileNotFoundError(
            f"`{column}` must be a column of a case table, but the dataset has no case table. "
            f"Write {places} with a column `case` and a column `{column}`{meaning}."
        )

    table = read_cases(path, cases).set_index("case")
    (column,) = spelt_like({column: None}, list(table))
    if column not in table.columns:
        cure = f"Add it{meaning or ', or name another column'}."
        raise ValueError(
            f"`{column}` must be a column of {path}, which has {name_some(list(table))}. {cure}"
        )
    return table[column], path


def watched_groups(trainer: Any, cases: Sequence[str]) -> dict[str, list[str]]:
    """The group of each case by column, for the columns to watch in the log.

    These have 2 to 12 groups, or, of numbers, at most 5.
    """
    path = find_case_table(*dataset_folders(trainer))
    if path is None:
        return {}

    table = read_cases(path, cases)
    rows: pd.DataFrame = table.set_index("case").reindex(list(cases), fill_value=MISSING)
    most_groups = min(_MOST_GROUPS, len(cases) // 2)
    watched = {}

    for column in attributes_of(table):
        entries = rows[column]
        if 2 <= entries.nunique() <= most_groups and not _are_measured(set(entries)):
            watched[column] = [str(group) for group in entries]
    return watched


def _are_measured(groups: set[str]) -> bool:
    """Whether the entries of a column are numbers, and not the names of groups."""
    names = sorted(groups - {MISSING})
    column = pd.Series(names, dtype=object).str.replace(",", ".")
    numbers = pd.to_numeric(column, errors="coerce")
    if not numbers.notna().all():
        return False

    # Few and small numbers may be names.
    if len(names) > _MOST_NUMBERS:
        return True
    return not all(name.isdecimal() and int(name) <= _LARGEST_NUMBER for name in names)
