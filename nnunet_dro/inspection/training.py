"""The files of a finished training, of its dataset and of its validation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from nnunet_dro.bad_input import check_folder
from nnunet_dro.evaluation.inputs.nnunet_summary import read_summary
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.evaluation.scoring.scoring import Scoring
from nnunet_dro.evaluation.stratifying.parts import column_named
from nnunet_dro.files import case_table
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import (
    CHECKPOINT,
    DATASET_JSON,
    PLANS_JSON,
    SPLITS_FILE,
    Fold,
    dataset_folder,
    described_model,
    folder_of,
    settings_of,
)


@dataclass(frozen=True, eq=False)
class TrainingFiles:
    """The files of a finished training; plans.json and dataset.json are those beside the folds."""

    fold: Fold
    checkpoint: Path
    plans: Mapping[str, Any]
    dataset: Mapping[str, Any]
    preprocessed: Path  # the dataset's folder in nnUNet_preprocessed

    @property
    def labels(self) -> Labels:
        """The labels of the dataset."""
        return Labels.from_dataset_json(self.dataset)


def find_training(folder: Path) -> TrainingFiles:
    """Find the files of a finished training.

    Raises:
        FileNotFoundError: If one of them does not exist.
        ValueError: If one of them is damaged, or says nothing of the configuration.
    """
    fold = Fold.of(folder)
    checkpoint = fold.folder / CHECKPOINT
    if not checkpoint.is_file():
        _refuse_unfinished(fold)

    model = fold.folder.parent
    plans = described_model(model, PLANS_JSON, needed=("configurations",))
    dataset = described_model(model, DATASET_JSON, needed=("labels",))
    configurations = plans["configurations"]
    if fold.configuration not in configurations:
        raise ValueError(
            f"`plans.json` must have the configuration {fold.configuration}, got "
            f"{name_some(list(configurations))} in {str(model)!r}. Copy plans.json "
            "again from where the model was trained."
        )

    preprocessed = folder_of("nnUNet_preprocessed") / str(plans.get("dataset_name", fold.dataset))
    identifier = settings_of(plans, fold.configuration).get("data_identifier")
    if identifier is None:
        raise ValueError(
            f"`plans.json` must have a data_identifier, got none for {fold.configuration}. Plan "
            "the dataset again."
        )
    for there in (preprocessed, preprocessed / str(identifier)):
        check_folder(
            "nnUNet_preprocessed",
            there,
            "Set the variable as for the training, or preprocess the dataset again with the same "
            "plans.",
            must="hold the preprocessed dataset",
        )

    # Fold all trains on every case.
    splits = preprocessed / SPLITS_FILE
    if fold.number != "all" and not splits.is_file():
        raise FileNotFoundError(
            f"`{SPLITS_FILE}` must say what the training cases are, got no {str(splits)!r}. Copy "
            "it from where the model was trained."
        )
    return TrainingFiles(
        fold=fold,
        checkpoint=checkpoint,
        plans=plans,
        dataset=dataset,
        preprocessed=preprocessed,
    )


def _refuse_unfinished(fold: Fold) -> NoReturn:
    """Say what a fold without the checkpoint has instead, and what to do."""
    others = sorted(path.name for path in fold.folder.glob("checkpoint_*.pth"))
    if others:
        state = f"the training is not finished ({name_some(others)})"
        cure = "Finish it with nnUNetv2_train ... --c."
    else:
        state = "there is no checkpoint"
        cure = "Train it, or give the folder of another fold."
    raise FileNotFoundError(
        f"`fold_folder` must hold {CHECKPOINT}, got {str(fold.folder)!r}: {state}. {cure}"
    )


def read_strata(
    preprocessed: Path,
    training: Sequence[str],
    validation: Sequence[str],
    *,
    table: Path | None,
    by: Sequence[str],
    report: Callable[[str], None],
) -> tuple[pd.DataFrame, str]:
    """Read the columns with strata, and report entries that are spelt in several ways.

    Args:
        preprocessed: The dataset's folder in nnUNet_preprocessed.
        training: The training cases.
        validation: The validation cases.
        table: The case table; default: that of the dataset.
        by: The columns; default: all that divide the training cases.
        report: Called with a sentence for each column with entries that may mean the same.

    Returns:
        The columns, with a row per case, and the path of the case table, empty if there is none.

    Raises:
        FileNotFoundError: If there is no table for the columns.
        ValueError: If the table lacks a column or a case.
    """
    cases = [*training, *validation]
    raw = dataset_folder("nnUNet_raw", preprocessed.name)
    path = table or case_table.find_case_table(preprocessed, raw)
    if path is None and by:
        places = map(str, case_table.case_table_places(preprocessed, raw))
        raise FileNotFoundError(
            f"`by` must be a column of a case table, got no table. Write {' or '.join(places)}."
        )
    if path is None:
        return pd.DataFrame(index=pd.Index(cases, name="case")), ""

    rows = case_table.read_cases_of(path, cases).set_index("case")
    by = [column_named(column, list(rows)) for column in dict.fromkeys(by)]
    # A column that says who is in training divides all cases, but not those of the training.
    columns = by or case_table.dividing_attributes(rows.loc[list(training)])
    strata = rows.loc[cases, columns]
    for column in columns:
        for note in case_table.notes_on_spelling(column, strata[column]):
            report(note)
    return strata, str(path)


def described_cases(fold: Fold, cases: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """What the dataset's case table says of the cases, and a note if it cannot be used."""
    notes = []
    described = pd.DataFrame()
    preprocessed = fold.dataset_folder("nnUNet_preprocessed")
    raw = fold.dataset_folder("nnUNet_raw")

    path = case_table.find_case_table(preprocessed, raw)
    if path is not None:
        try:
            described = case_table.read_cases(path, cases).set_index("case")
        except ValueError as error:
            notes.append(f"The case table is not used: {error}")
    return described.reindex(pd.Index(cases), fill_value=case_table.MISSING), notes


def validation_dice(folds: Sequence[Fold]) -> tuple[pd.Series, list[str]]:
    """The mean Dice of every case over the labels, and notes on folds without.

    Fold ``all`` is left out: it validates cases that it was trained on. So are the cases in another
    fold's validation that splits_final.json has in its training part.
    """
    parts = []
    lacking = []
    notes = []
    for fold in folds:
        name = fold.folder.name
        if name == "fold_all":
            continue

        path = fold.folder / "validation" / "summary.json"
        if not path.is_file():
            lacking.append(name)
            continue
        try:
            scores, inputs = read_summary(path, None, Scoring(("dice",)))
        except ValueError as error:
            notes.append(f"The validation of {name} is left out: {error}")
        else:
            parts.append(scores.groupby("case")["dice"].mean())
            notes += inputs.notes

    if not parts:
        return pd.Series(dtype="float64", name="validation_dice"), notes
    if lacking:
        notes.append(
            f"No validation Dice of {name_some(lacking)}, whose validation/summary.json does not "
            "exist."
        )
    together = pd.concat(parts)
    return together.groupby(together.index).mean().rename("validation_dice"), notes
