"""What a divided raw dataset has beside its images: the tables of its cases and its description."""

import json
from pathlib import Path

import pandas as pd


def finish_dataset(partial: Path, folder: Path, table: pd.DataFrame, *, source: Path) -> None:
    """Write ``cases.csv``, ``test_cases.csv`` and ``dataset.json``, and give the folder its name: it is complete then.

    The table has the columns ``case``, that of the strata, and ``split``; ``source`` is the dataset that was divided.
    """
    table = table.sort_values("case")
    of_test = table["split"] == "test"
    table[~of_test].to_csv(partial / "cases.csv", index=False)
    table[of_test].to_csv(partial / "test_cases.csv", index=False)
    description = json.loads((source / "dataset.json").read_text(encoding="utf-8"))
    description["numTraining"] = int((~of_test).sum())
    (partial / "dataset.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    partial.rename(folder)
