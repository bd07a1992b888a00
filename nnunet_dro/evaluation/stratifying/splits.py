"""Folds for nnU-Net's cross-validation that keep strata balanced, patients together or centres apart."""

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.stratifying.stratify import entries_of, stratify_all
from nnunet_dro.files.case_table import read_cases
from nnunet_dro.files.output_folder import replacing
from nnunet_dro.naming import count, name_some
from nnunet_dro.nnunet.folders import SPLITS_FILE, splits_path
from nnunet_dro.nnunet.raw_dataset import case_table_of, find_raw_dataset, training_cases

_ATTEMPTS = 50

_FEW = 5  # With fewer validation cases, a fold of a centre that is left out says little of it.


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
        >>> _ = (dataset / "dataset.json").write_text('{"dataset": {"a": {}, "b": {}, "c": {}, "d": {}}}')
        >>> [len(fold["val"]) for fold in make_splits(dataset, None, folds=2)]
        [2, 2]
    """
    if folds < 2:
        raise ValueError(f"`folds` must be at least 2, got {folds}. Give more folds.")
    if leave_out is not None and stratify is not None:
        raise ValueError(
            f"`stratify` must be left out where every centre is a fold, got {stratify!r} with `leave_out` "
            f"{leave_out!r}. Give one of --stratify and --leave-out."
        )
    cases = training_cases(raw_dataset)
    groups = entries_of(table, group, cases, option="group")
    if entries_of(table, leave_out, cases, option="leave_out") is not None:
        centre_of_case = _strata(table, leave_out, cases, "leave_out")
        for patient, centres in (
            () if groups is None else centre_of_case.astype(str).groupby(groups.to_numpy())
        ):
            if centres.nunique() > 1:
                got = f"{patient!r} in {name_some(sorted(centres.unique()))}"
                cure = "Correct the case table, or leave out another column."
                raise ValueError(
                    f"`leave_out` must keep the cases of {group!r} together, got {got}. {cure}"
                )
        n_centres = len(centre_of_case.cat.categories)
        if n_centres < 2:
            rule = "must have two entries or more to leave one out"
            got = f"{centre_of_case.iloc[0]!r} only"
            raise ValueError(f"column `{centre_of_case.name}` {rule}, got {got}.")
        return _in_form(
            cases, [np.flatnonzero(centre_of_case.cat.codes == n) for n in range(n_centres)]
        )
    n_units = len(cases) if groups is None else groups.nunique()
    if n_units < folds:
        unit = "cases" if groups is None else f"entries of {group!r}"
        raise ValueError(
            f"`folds` must be at most the number of {unit}, {n_units}, got {folds}. Give fewer folds."
        )
    stratum_of_case = None if stratify is None else _strata(table, stratify, cases, "stratify")
    return _in_form(cases, _validation_sets(stratum_of_case, groups, len(cases), folds, seed))


def _strata(
    table: pd.DataFrame | None, by: str | None, cases: Sequence[str], option: str
) -> "pd.Series[str]":
    """The stratum of each case by an option, whose name is that in errors."""
    try:
        (stratum_of_case,) = stratify_all(table, [by] if by else [], cases).values()
    except ValueError as error:
        raise ValueError(str(error).replace("`by`", f"`{option}`")) from error
    return stratum_of_case


def _validation_sets(
    stratum_of_case: "pd.Series[str] | None",
    groups: "pd.Series[str] | None",
    n: int,
    folds: int,
    seed: int,
) -> list[npt.NDArray[np.intp]]:
    """The positions of the validation cases of each fold."""
    from sklearn import model_selection  # type: ignore[import-untyped]

    if groups is not None and groups.nunique() == n:
        groups = None  # every patient has one case: nothing to keep together, and cases alone are spread more evenly
    # The order of the groups must not depend on their names, because sites number their patients.
    codes = (
        None
        if groups is None
        else np.random.default_rng(seed).permutation(n)[pd.factorize(groups)[0]]
    )
    if stratum_of_case is None and codes is None:
        splits = model_selection.KFold(folds, shuffle=True, random_state=seed).split(np.zeros(n))
        return [validation for _, validation in splits]
    if stratum_of_case is None:
        splits = model_selection.GroupKFold(folds).split(np.zeros(n), groups=codes)
        return [validation for _, validation in splits]
    ranks = stratum_of_case.cat.codes.to_numpy().astype(np.intp)
    if np.bincount(ranks).max() < folds:
        # scikit-learn refuses if every stratum has fewer cases than there are folds. With a made-up
        # stratum of one case per fold it deals out the others as usual; the made-up cases are
        # dropped again.
        ranks = np.concatenate([ranks, np.full(folds, ranks.max() + 1)])
        codes = None if codes is None else np.concatenate([codes, n + np.arange(folds)])
    kind = (
        model_selection.StratifiedKFold if codes is None else model_selection.StratifiedGroupKFold
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # on rare strata; `split_notes` names them
        # With few groups a fold can come out empty; another order of the groups helps.
        for attempt in range(_ATTEMPTS):
            splits = kind(folds, shuffle=True, random_state=seed + attempt).split(
                ranks, ranks, groups=codes
            )
            validations = [validation[validation < n] for _, validation in splits]
            if all(len(validation) for validation in validations):
                return validations
    cure = "Give fewer folds, or leave out --stratify."
    raise ValueError(
        f"`folds` must be few enough for every fold to have a case, got {folds}. {cure}"
    )


def _in_form(
    cases: Sequence[str], validations: Iterable[npt.NDArray[np.intp]]
) -> list[dict[str, list[str]]]:
    held_out = [{cases[position] for position in validation} for validation in validations]
    return [
        {"train": [case for case in cases if case not in inside], "val": sorted(inside)}
        for inside in held_out
    ]


def split_notes(
    splits: Sequence[Mapping[str, Sequence[str]]], stratum_of_case: "pd.Series[str]"
) -> list[str]:
    """Notes on strata that some folds do not validate on."""
    table = fold_table(splits, stratum_of_case)
    notes = []
    for stratum, rows in table.groupby("stratum", sort=False):
        without = [str(fold) for fold in rows.loc[rows["n_validation"] == 0, "fold"]]
        if without:
            cases = count(int(rows["n_validation"].sum()), "case")
            folds = (
                f"fold {without[0]} validates"
                if len(without) == 1
                else f"folds {name_some(without)} validate"
            )
            notes.append(f"{stratum_of_case.name}={stratum} has {cases}: {folds} on none of them.")
    return notes


def small_folds(
    splits: Sequence[Mapping[str, Sequence[str]]], centre_of_case: "pd.Series[str]"
) -> list[str]:
    """A sentence on centres that are left out with a handful of cases or less."""
    small = [
        f"fold {fold} ({centre_of_case[split['val'][0]]}) on {len(split['val'])}"
        for fold, split in enumerate(splits)
        if len(split["val"]) < _FEW
    ]
    named = name_some(small, at_most=10)
    return (
        [f"Validated on fewer than {_FEW} cases: {named}. Such a fold says little of its centre."]
        if small
        else []
    )


def fold_table(
    splits: Sequence[Mapping[str, Sequence[str]]], stratum_of_case: "pd.Series[str]"
) -> pd.DataFrame:
    """How many cases of every stratum each fold trains and validates on, a row per fold (from 0) and stratum."""
    strata = stratum_of_case.astype("category")
    rows: list[tuple[object, ...]] = []
    for fold, split in enumerate(splits):
        # The counts of a categorical include every category, in order.
        n_training, n_validation = (
            strata.loc[list(split[part])].value_counts(sort=False) for part in ("train", "val")
        )
        rows += [
            (fold, str(s), int(n_training[s]), int(n_validation[s])) for s in strata.cat.categories
        ]
    return pd.DataFrame(rows, columns=["fold", "stratum", "n_training", "n_validation"])


@dataclass(frozen=True)
class WrittenSplits:
    """Folds that were written.

    The file, their `fold_table` by what they were divided by, and notes on them.
    """

    path: Path
    table: pd.DataFrame
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
    """Divide the training cases of a dataset into folds, and write them where nnU-Net reads them."""
    folder = find_raw_dataset(dataset)
    path = output or splits_path(folder)
    if output is None and not path.parent.is_dir():
        # nnU-Net's own commands decide where this folder is, and what else is in it.
        cure = "Preprocess it first (nnUNetv2_plan_and_preprocess), or name the file with --output."
        raise FileNotFoundError(
            f"`dataset` must be preprocessed, got no folder {str(path.parent)!r}. {cure}"
        )
    training = training_cases(folder)
    found = cases or (case_table_of(folder) if stratify or group or leave_out else None)
    table = read_cases(found) if found else None
    splits = make_splits(
        folder, table, stratify=stratify, group=group, leave_out=leave_out, folds=folds
    )
    stratum_of_case = _strata(
        table, stratify or leave_out, training, "stratify" if stratify else "leave_out"
    )
    write_splits(splits, path, force=force)
    notes = split_notes(splits, stratum_of_case) if stratify else []
    notes += small_folds(splits, stratum_of_case) if leave_out else []
    notes += [f"The case table is {found}; --cases names another."] if found and not cases else []
    return WrittenSplits(path, fold_table(splits, stratum_of_case), tuple(notes))


def write_splits(
    splits: Sequence[Mapping[str, Sequence[str]]], path: Path, *, force: bool = False
) -> None:
    """Write folds as nnU-Net reads them."""
    if path.is_dir():
        raise ValueError(
            f"`output` must be a file, got the folder {str(path)!r}. Add a name, such as {SPLITS_FILE}."
        )
    if path.exists() and not force:
        cure = "Networks may have been trained with its folds. Give --force to replace it."
        raise FileExistsError(f"`output` must not exist yet, got {str(path)!r}. {cure}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        # In ASCII, because nnU-Net reads the file in the encoding of the locale.
        partial.write_text(json.dumps(list(splits), indent=4) + "\n", encoding="ascii")
