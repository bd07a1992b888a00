"""The files that the examination of a fold needs, checked before anything is loaded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.files import case_table
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import CHECKPOINT, SPLITS_FILE, Fold, dataset_folder, folder_of


@dataclass(frozen=True, eq=False)
class Inputs:
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


def find_inputs(folder: Path) -> Inputs:
    """Find the files of a finished training."""
    fold = Fold.of(folder)
    checkpoint = fold.folder / CHECKPOINT
    if not checkpoint.is_file():
        others = sorted(path.name for path in fold.folder.glob("checkpoint_*.pth"))
        there = (
            f"the training is not finished ({name_some(others)})"
            if others
            else "there is no checkpoint"
        )
        cure = (
            "Finish it with nnUNetv2_train ... --c."
            if others
            else "Train it, or give the folder of another fold."
        )
        raise FileNotFoundError(
            f"`fold_folder` must hold {CHECKPOINT}, got {str(fold.folder)!r}: {there}. {cure}"
        )
    plans = _described(fold, "plans.json")
    dataset = _described(fold, "dataset.json")
    configurations = plans.get("configurations", {})
    if fold.configuration not in configurations:
        cure = "Copy plans.json again from where the model was trained."
        raise ValueError(
            f"`plans.json` must have the configuration {fold.configuration}, got {name_some(list(configurations))} in "
            f"{str(fold.folder.parent)!r}. {cure}"
        )
    preprocessed = folder_of("nnUNet_preprocessed") / str(plans.get("dataset_name", fold.dataset))
    _check_folder(preprocessed)
    if (identifier := fold.settings_in(plans).get("data_identifier")) is None:
        got = f"none for {fold.configuration}"
        raise ValueError(
            f"`plans.json` must have a data_identifier, got {got}. Plan the dataset again."
        )
    _check_folder(preprocessed / str(identifier))
    if fold.number != "all" and not (splits := preprocessed / SPLITS_FILE).is_file():
        cure = "Copy it from where the model was trained."
        raise FileNotFoundError(
            f"`{SPLITS_FILE}` must say what the training cases are, got no {str(splits)!r}. {cure}"
        )
    return Inputs(fold, checkpoint, plans, dataset, preprocessed)


def read_strata(
    inputs: Inputs,
    training: Sequence[str],
    validation: Sequence[str],
    *,
    table: Path | None,
    by: Sequence[str],
) -> tuple[pd.DataFrame, str]:
    """The columns with strata, ``by`` or all that divide the training cases, and the case table's path, '' if none."""
    cases = [*training, *validation]
    raw = dataset_folder("nnUNet_raw", inputs.preprocessed.name)
    path = table or case_table.find_case_table(inputs.preprocessed, raw)
    if path is None:
        if by:
            places = " or ".join(
                str(place) for place in case_table.case_table_places(inputs.preprocessed, raw)
            )
            raise FileNotFoundError(
                f"`by` must be a column of a case table, got no table. Write {places}."
            )
        return pd.DataFrame(index=pd.Index(cases, name="case")), ""
    found = case_table.read_cases(path).set_index("case")
    known = case_table.attributes_of(found)
    if unknown := [column for column in by if column not in known]:
        raise ValueError(
            f"`by` must be columns of {str(path)!r}, got {unknown[0]!r}. Choose from: {name_some(known)}."
        )
    if missing := [case for case in cases if case not in found.index]:
        raise ValueError(
            f"`cases` must have a row for every case, got none for {name_some(missing)} in {str(path)!r}."
        )
    # A column that says who is in training divides all cases, but not those of the training.
    dividing = case_table.dividing_attributes(found.loc[list(training)])
    return found.loc[cases, list(dict.fromkeys(by)) or dividing], str(path)


def _described(fold: Fold, name: str) -> Mapping[str, Any]:
    content = fold.description(name)
    if content is None:
        path = fold.folder.parent / name
        cure = "Copy it from where the model was trained."
        if not path.exists():
            raise FileNotFoundError(
                f"`{name}` must be beside the folds, got no {str(path)!r}. {cure}"
            )
        raise ValueError(f"`{name}` must be JSON, got {str(path)!r}, which is damaged. {cure}")
    return content


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise FileNotFoundError(
            f"`nnUNet_preprocessed` must hold the preprocessed dataset, got no {str(folder)!r}. Set the variable as "
            "for the training, or preprocess the dataset again with the same plans."
        )
