"""What a made or divided raw dataset has beside its images: the tables of its cases and its description."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pandas as pd


def begin_dataset(folder: Path) -> Path:
    """The empty folders of a dataset under another name, which `finish_dataset` changes once it is complete."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for name in ("imagesTr", "labelsTr", "imagesTs", "labelsTs"):
        (partial / name).mkdir(parents=True)
    return partial


def finish_dataset(partial: Path, folder: Path, table: pd.DataFrame, description: Mapping[str, object]) -> None:
    """Write ``cases.csv``, ``test_cases.csv`` and ``dataset.json``; name the folder last: it is complete then."""
    table = table.sort_values("case")
    of_test = table["split"] == "test"
    table[~of_test].to_csv(partial / "cases.csv", index=False)
    table[of_test].to_csv(partial / "test_cases.csv", index=False)
    content = {**description, "numTraining": int((~of_test).sum())}
    (partial / "dataset.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    partial.rename(folder)
