"""Folds for nnU-Net's cross-validation.

They keep strata balanced, patients together or centres apart.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.bad_input import InputError, bad_input
from nnunet_dro.evaluation.stratifying.folds import (
    centres_apart,
    check_enough,
    validation_sets,
)
from nnunet_dro.evaluation.stratifying.stratify import (
    entries_of,
    notes_on_entries,
    stratify_all,
)
from nnunet_dro.files.case_table import read_cases
from nnunet_dro.files.json_file import read_json
from nnunet_dro.files.output_folder import check_new_file, check_writable, replacing
from nnunet_dro.naming import count, group_name, name_some
from nnunet_dro.nnunet.folders import SPLITS_FILE, splits_path
from nnunet_dro.nnunet.raw_dataset import case_table_of, find_raw_dataset, training_cases

#: With fewer validation cases, a fold of a centre that is left out says little of it.
_FEW = 5


def make_splits(
    raw_dataset: Path,
    table: pd.DataFrame | None,
    *,
    stratify: str | None = None,
    group: str | None = None,
    leave_out: str | None = None,
    folds: int = 5,
    seed: int = 12345,
) -> list[dict[str, list[str]]]:
    """Divide the training cases of a dataset into folds.

    Without options, and with nnU-Net's own number of folds and seed as defaults, these are
    nnU-Net's own folds.

    Args:
        raw_dataset: The folder of the raw dataset.
        table: From `read_cases`; rows of other cases (of the test set) are ignored. None if no
            option needs a table.
        stratify: As for `parse_by`; every stratum is spread evenly over the folds. A missing entry
            is a stratum, too.
        group: A column; cases with the same entry (a patient's) are never in two folds.
        leave_out: A column; each of its entries (a centre) becomes a fold, in the order of
            `stratify`. ``folds`` and ``seed`` have no effect then.
        folds: Number of folds, at least 2.
        seed: Random seed of the division.

    Returns:
        nnU-Net's form: per fold ``train`` and ``val``, sorted; every case is in exactly one
        ``val``.

    Raises:
        FileNotFoundError: If the dataset lacks dataset.json or labelsTr.
        ValueError: If the options exclude each other, a column or the row of a case is missing, a
            case has no entry in the columns ``group`` and ``leave_out``, a patient is in two
            centres, or there are fewer cases or groups than folds, fewer than two centres, or not
            every fold can be given a case.

    Example:
        >>> import tempfile
        >>> dataset = Path(tempfile.mkdtemp())
        >>> cases = '{"dataset": {"a": {}, "b": {}, "c": {}, "d": {}}}'
        >>> size = (dataset / "dataset.json").write_text(cases)
        >>> [len(fold["val"]) for fold in make_splits(dataset, None, folds=2)]
        [2, 2]
    """
    cases = training_cases(raw_dataset)
    groups = entries_of(table, group, cases, option="group")
    if leave_out is not None:
        return _in_form(cases, _left_out(table, leave_out, cases, groups, stratify))

    check_enough(groups, len(cases), folds)
    stratum_of_case = None
    if stratify is not None:
        stratum_of_case = _strata(table, stratify, cases, "stratify")
    validations = validation_sets(stratum_of_case, groups, len(cases), folds, seed)
    return _in_form(cases, validations)


def _left_out(
    table: pd.DataFrame | None,
    column: str,
    cases: Sequence[str],
    groups: "pd.Series[str] | None",
    stratify: str | None,
) -> list[npt.NDArray[np.intp]]:
    """The positions of the cases of each centre; what balances strata cannot be asked for, too."""
    if stratify is not None:
        raise InputError(
            "stratify",
            must="be left out where every centre is a fold",
            got=f"{stratify!r} with `leave_out` {column!r}",
            cure="Give one of --stratify and --leave-out.",
        )

    # A missing entry is a stratum, but no centre.
    entries_of(table, column, cases, option="leave_out")
    return centres_apart(_strata(table, column, cases, "leave_out"), groups)


def _strata(
    table: pd.DataFrame | None, by: str | None, cases: Sequence[str], option: str
) -> "pd.Series[str]":
    """The stratum of each case by an option, whose name stands in errors."""
    specs = [by] if by else []
    (stratum_of_case,) = stratify_all(table, specs, cases, option=option).values()
    return stratum_of_case


def _in_form(
    cases: Sequence[str], validations: Iterable[npt.NDArray[np.intp]]
) -> list[dict[str, list[str]]]:
    """Folds in nnU-Net's form, from the positions of their validation cases."""
    splits = []
    for validation in validations:
        held_out = {cases[position] for position in validation}
        training = [case for case in cases if case not in held_out]
        splits.append({"train": training, "val": sorted(held_out)})
    return splits


def split_notes(
    splits: Sequence[Mapping[str, Sequence[str]]], stratum_of_case: "pd.Series[str]"
) -> list[str]:
    """Notes on strata that some folds do not validate on."""
    table = fold_table(splits, stratum_of_case)
    notes = []
    for stratum, rows in table.groupby("stratum", sort=False):
        without = [str(fold) for fold in rows.loc[rows["n_validation"] == 0, "fold"]]
        if not without:
            continue

        cases = count(int(rows["n_validation"].sum()), "case")
        folds = f"folds {name_some(without)} validate"
        if len(without) == 1:
            folds = f"fold {without[0]} validates"
        named = group_name(str(stratum_of_case.name), str(stratum))
        notes.append(f"{named} has {cases}: {folds} on none of them.")
    return notes


def small_folds(
    splits: Sequence[Mapping[str, Sequence[str]]], centre_of_case: "pd.Series[str]"
) -> list[str]:
    """A sentence on centres that are left out with a handful of cases or less."""
    small = []
    for fold, split in enumerate(splits):
        n_cases = len(split["val"])
        if n_cases < _FEW:
            centre = centre_of_case[split["val"][0]]
            small.append(f"fold {fold} ({centre}) on {n_cases}")
    if not small:
        return []

    named = name_some(small, at_most=10)
    return [
        f"Validated on fewer than {_FEW} cases: {named}. Such a fold says little of its centre."
    ]


def fold_table(
    splits: Sequence[Mapping[str, Sequence[str]]], stratum_of_case: "pd.Series[str]"
) -> pd.DataFrame:
    """How many cases of every stratum each fold trains and validates on.

    A row per fold (from 0) and stratum, with 0 where it has no case: ``n_training`` and
    ``n_validation``.
    """
    strata = stratum_of_case.astype("category")
    folds = []
    for fold, split in enumerate(splits):
        # The counts of a categorical include every category, in order.
        counts = {
            f"n_{name}": strata.loc[list(split[key])].value_counts(sort=False)
            for name, key in (("training", "train"), ("validation", "val"))
        }
        folds.append(pd.DataFrame(counts).rename_axis("stratum").reset_index().assign(fold=fold))
    table = pd.concat(folds, ignore_index=True).astype({"stratum": str})
    return table[["fold", "stratum", "n_training", "n_validation"]]


@dataclass(frozen=True)
class WrittenSplits:
    """Folds that were written."""

    path: Path  # the file
    table: pd.DataFrame  # `fold_table`, by what they were divided by
    notes: tuple[str, ...]


def split_dataset(
    dataset: str,
    cases: Path | None = None,
    *,
    stratify: str | None = None,
    group: str | None = None,
    leave_out: str | None = None,
    folds: int = 5,
    output: Path | None = None,
    force: bool = False,
) -> WrittenSplits:
    """Divide the training cases of a dataset into folds, and write them for nnU-Net to read.

    Args:
        dataset: The name or number of a raw dataset.
        cases: The case table; default: that of the dataset, if an option needs one.
        stratify: As for `make_splits`.
        group: As for `make_splits`.
        leave_out: As for `make_splits`.
        folds: Number of folds.
        output: The file; default: where nnU-Net looks for it.
        force: Whether to replace a file that exists.

    Raises:
        FileNotFoundError: If there is no such dataset, or it is not preprocessed and the file is
            to be where nnU-Net looks for it.
        FileExistsError: If the file exists and is not to be replaced, or the raw dataset has other
            folds.
        ValueError: As for `make_splits`.
    """
    folder = find_raw_dataset(dataset)
    path = output or _preprocessed_path(folder)
    divided_by = stratify or leave_out
    table_path = cases
    if cases is None and (divided_by or group):
        table_path = case_table_of(folder)
    table = read_cases(table_path, training_cases(folder)) if table_path else None
    splits = make_splits(
        folder,
        table,
        stratify=stratify,
        group=group,
        leave_out=leave_out,
        folds=folds,
    )
    if output is None:
        _check_raw_splits(splits, folder / SPLITS_FILE)
    # What does not fit was refused above; without a column, all cases are one stratum.
    stratum_of_case = _strata(table, divided_by, training_cases(folder), "stratify")
    write_splits(splits, path, force=force)

    notes = notes_on_entries(table, [divided_by] if divided_by else [], group)
    if stratify:
        notes += split_notes(splits, stratum_of_case)
    if leave_out:
        notes += small_folds(splits, stratum_of_case)
    if table_path and not cases:
        notes.append(f"The case table is {table_path}; --cases names another.")
    return WrittenSplits(path, fold_table(splits, stratum_of_case), tuple(notes))


def _preprocessed_path(raw_dataset: Path) -> Path:
    """The file in which nnU-Net looks for the folds of a dataset, which must be preprocessed."""
    path = splits_path(raw_dataset)
    if not path.parent.is_dir():
        # nnU-Net's own commands decide where this folder is, and what else is in it.
        raise FileNotFoundError(
            bad_input(
                "dataset",
                must="be preprocessed",
                got=f"no folder {str(path.parent)!r}",
                cure=(
                    "Preprocess it first (nnUNetv2_plan_and_preprocess), or name the file with "
                    "--output."
                ),
            )
        )
    return path


def _check_raw_splits(splits: Sequence[Mapping[str, Sequence[str]]], path: Path) -> None:
    """Raise FileExistsError if the raw dataset has other folds than those to be written.

    nnUNetv2_plan_and_preprocess copies them, and stops where other folds are in the way.
    """
    if not path.is_file():
        return

    # A file that cannot be read as folds is in the way, too.
    with suppress(ValueError, KeyError, TypeError):
        if _folds(read_json(path)) == _folds(splits):
            return

    raise FileExistsError(
        bad_input(
            "dataset",
            must="have no other folds in its raw folder",
            got=f"{str(path)!r}, with which nnUNetv2_plan_and_preprocess would fail",
            cure="Rename or remove that file, then write the folds.",
        )
    )


def _folds(splits: Sequence[Mapping[str, Sequence[str]]]) -> list[tuple[set[str], set[str]]]:
    """The training and the validation cases of each fold, in no order."""
    return [(set(fold["train"]), set(fold["val"])) for fold in splits]


def write_splits(
    splits: Sequence[Mapping[str, Sequence[str]]], path: Path, *, force: bool = False
) -> None:
    """Write folds as nnU-Net reads them."""
    check_writable(path.parent, name="output", cure="Name a file in another folder.")
    path.parent.mkdir(parents=True, exist_ok=True)
    check_new_file(
        path, overwrite=force, option="--force (networks may have been trained with its folds)"
    )
    with replacing(path) as partial:
        # In ASCII, because nnU-Net reads the file in the encoding of the locale.
        partial.write_text(json.dumps(list(splits), indent=4) + "\n", encoding="ascii")
