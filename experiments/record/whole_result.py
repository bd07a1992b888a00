"""The page of an experiment, its picture and its table, with how they were made."""

import math
import os
import platform
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import torch
from matplotlib.figure import Figure

import nnunet_dro
from experiments.record.duration import shown_duration
from experiments.record.templates import render
from nnunet_dro.files.atomic import replacing


def write_result(
    folder: Path,
    name: str,
    *,
    title: str,
    text: str,
    table: pd.DataFrame,
    figure: Figure,
    command: str,
    seeds: Sequence[int],
    quick: bool,
    seconds: float,
    added: Sequence[int] = (),
    shown: pd.DataFrame | None = None,
) -> Path:
    """Write ``<name>.md``, ``<name>.png`` and ``<name>.csv``, each whole or not at all, the page last.

    Args:
        folder: Folder of the results; it is created if necessary.
        name: Name of the files, without suffix: lower-case letters, digits and hyphens.
        title: Heading of the page, plain text.
        text: What was asked and what came out, markdown, with headings from the second level on.
        table: Results, one row per line of the page's table. The page shows rounded numbers of the rows
            that `shown_rows` keeps, the CSV all rows and digits. An index without names is left out.
        figure: The picture.
        command: The exact command that makes this record again.
        seeds: Seeds of the random numbers; none where nothing is random.
        quick: Whether it is a smoke run; the page then says so at the top.
        seconds: Duration of the experiment, or of the seeds that were added.
        added: Those of the seeds that were added to a record of the others.
        shown: What the page shows in place of the table.

    Returns:
        The page's path.

    Raises:
        ValueError: If ``name`` cannot be a file name, ``table`` has no row, or ``seconds`` is negative or not finite.
    """
    _check_result(name, table, seconds)
    if any(label is not None for label in table.index.names):
        table = table.reset_index()
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / f"{name}.csv", table)
    with replacing(folder / f"{name}.png") as partial:
        figure.savefig(partial, dpi=150)
    made = render(
        "record/page",
        title=title,
        name=name,
        text=text.strip(),
        table=table if shown is None else shown,
        command=command,
        seeds=seeds,
        added=added,
        quick=quick,
        duration=shown_duration(seconds),
        **_surroundings(),
    )
    page = folder / f"{name}.md"
    with replacing(page) as partial:
        partial.write_text(f"{made}\n", encoding="utf-8")
    return page


def write_table(path: Path, table: pd.DataFrame, *, float_format: str | None = None) -> None:
    """Write a table as CSV, whole or not at all, without its index; its folder is made if it is not there.

    Args:
        path: The file.
        table: The table.
        float_format: As in C; all digits if not given.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        table.to_csv(partial, index=False, float_format=float_format)


def _check_result(name: str, table: pd.DataFrame, seconds: float) -> None:
    if not name or not set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-"):
        raise ValueError(f"`name` must be of lower-case letters, digits and hyphens, got {name!r}. Rename the result.")
    if len(table) == 0:
        raise ValueError(f"`table` must have at least one row, got none for {name!r}. Run the experiment first.")
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"`seconds` must be finite and not negative, got {seconds!r}. Give the measured duration.")


def _surroundings() -> dict[str, object]:
    """What the results were made with, for the page."""
    packages = {package: version(package) for package in ("torch", "numpy", "nnunetv2")}
    versions = {"Python": platform.python_version(), **packages, "nnunet-dro": nnunet_dro.__version__}
    return {
        "versions": [f"{name} {number}" for name, number in versions.items()],
        "processor": _processor(),
        "n_threads": torch.get_num_threads(),
        "n_cores": os.cpu_count(),
        "date": datetime.now(timezone.utc).date().isoformat(),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.processor() or platform.machine() or "unknown processor"
