"""dataset.json, in which nnU-Net keeps the description of a dataset: find it and read it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnunet_dro.files.json_file import read_json

DATASET_JSON = "dataset.json"


def find_dataset_json(reference: Path) -> Path | None:
    """Find dataset.json in a folder of references or in one of the two folders above it; None if there is none."""
    folder = reference.absolute()
    candidates = (parent / DATASET_JSON for parent in (folder, folder.parent, folder.parent.parent))
    return next((path for path in candidates if path.is_file()), None)


def read_dataset_json(path: Path) -> Mapping[str, Any]:
    """Read a dataset.json."""
    if not path.is_file():
        raise FileNotFoundError(
            f"`dataset_json` must be a file, got {str(path)!r}, which does not exist. Check the path."
        )
    try:
        content = read_json(path, encoding="utf-8-sig")
    except ValueError as error:
        raise ValueError(f"`dataset_json` must be JSON, got {str(path)!r}: {error}. Correct it.") from error
    if not isinstance(content, Mapping):
        raise ValueError(f"`dataset_json` must be a mapping, got {str(path)!r}. Give nnU-Net's dataset.json.")
    return content


def read_if_usable(path: Path) -> Mapping[str, Any] | None:
    """Read a dataset.json or plans.json; None if it does not exist or is damaged."""
    try:
        content = read_json(path, encoding="utf-8-sig")
    except (OSError, ValueError):
        return None
    return content if isinstance(content, Mapping) else None
