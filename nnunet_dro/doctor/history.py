"""The losses that a training of this package has logged: hardness.csv."""

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

HARDNESS_FILE = "hardness.csv"


def stale_losses(path: Path, cases: Sequence[str]) -> list[list[float]]:
    """The losses of cases in the last third of the epochs, one for each epoch in which a case was drawn.

    Args:
        path: The file, with a row per epoch and case: ``epoch``, ``case``, ``loss`` and ``draws``.
        cases: The training cases.

    Returns:
        The losses of each case in the order of the epochs; at least the last one, NaN for a case that the file lacks.

    Raises:
        ValueError: If the file is damaged, or has none of the cases.
    """
    try:
        rows = pd.read_csv(path, usecols=["epoch", "case", "loss", "draws"], dtype={"case": str}, keep_default_na=False)
        rows = rows.assign(loss=pd.to_numeric(rows["loss"], errors="coerce"), epoch=pd.to_numeric(rows["epoch"]))
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"`{path.name}` must be a table of epoch, case, loss and draws, got {str(path)!r}: {reason}. Measure with "
            "--patches 4."
        ) from error
    found: dict[str, list[float]] = {}
    first = 2 * (int(rows["epoch"].max()) + 1) // 3 if len(rows) else 0
    for case, of_case in rows.sort_values("epoch").groupby("case"):
        fresh = of_case[(of_case["epoch"] >= first) & (of_case["draws"] > 0)]["loss"].dropna()
        last = of_case["loss"].dropna().tail(1)
        found[str(case)] = (fresh if len(fresh) else last).tolist()
    if not any(found.get(case) for case in cases):
        raise ValueError(
            f"`{path.name}` must have the losses of the training cases, got none in {str(path)!r}. Measure with "
            "--patches 4."
        )
    return [found.get(case) or [math.nan] for case in cases]
