"""A fold's results folder, and what its path says."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FOLD = re.compile(r"fold_(\d+|all)", re.ASCII)


@dataclass(frozen=True)
class Fold:
    """Where nnU-Net writes what it learns from one fold.

    Attributes:
        folder: ``DATASET/TRAINER__PLANS__CONFIGURATION/fold_X``, absolute.
        dataset: Such as Dataset123_Name.
        trainer: Name of the trainer.
        plans: Name of the plans.
        configuration: Such as 3d_fullres.
    """

    folder: Path
    dataset: str
    trainer: str
    plans: str
    configuration: str

    @classmethod
    def of(cls, folder: Path) -> "Fold":
        """The fold of a folder.

        Raises:
            FileNotFoundError: If there is no such folder.
            ValueError: If its path is not that of a fold of nnU-Net.
        """
        path = Path(os.path.abspath(folder))
        form = "DatasetXXX_Name/TRAINER__PLANS__CONFIGURATION/fold_X"
        if not path.is_dir():
            cure = f"Give the folder of a fold in nnUNet_results: {form}."
            raise FileNotFoundError(f"`fold_folder` must be a folder, got {str(folder)!r}, which is not there. {cure}")
        parts = path.parent.name.split("__")
        if not _FOLD.fullmatch(path.name) or len(parts) != 3 or not all(parts) or not path.parent.parent.name:
            cure = "Give one fold of a training."
            raise ValueError(f"`fold_folder` must be {form} of nnUNet_results, got {str(path)!r}. {cure}")
        return cls(path, path.parent.parent.name, *parts)

    def description(self, name: str) -> Mapping[str, Any] | None:
        """The contents of ``plans.json`` or ``dataset.json`` beside the folds; None if it is not there or damaged."""
        return read_json(self.folder.parent / name)


def read_json(path: Path) -> Mapping[str, Any] | None:
    """The contents of a JSON file that holds a mapping; None if it is not there, or is something else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, Mapping) else None
