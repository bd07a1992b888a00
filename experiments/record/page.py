"""The record of an experiment: a page to read, its picture and its table, with how they were made."""

import argparse
import hashlib
import json
import math
import os
import platform
import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

import nnunet_dro
from nnunet_dro.atomic import replacing

#: Where the records that belong to the documentation are.
RESULTS = Path("docs/results")
#: Where smoke runs go, so that they never replace those.
QUICK_RESULTS = Path("build/quick-results")

_SMOKE_RUN = (
    "> **Smoke run** (`--quick`): fewer images, settings or epochs, to see that everything works. "
    "The numbers on this page answer nothing."
)
_SIGNIFICANT_DIGITS = 3
#: Up to this ratio of largest to smallest, the numbers of a column are shown with the same decimals.
_WIDEST_RANGE = 1e4


def experiment_parser(description: str) -> argparse.ArgumentParser:
    """The command line that experiments share: ``--quick`` and ``--out``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="Smoke run: everything once, small, in under a minute.")
    parser.add_argument("--out", type=Path, help=f"Default: {RESULTS}; with --quick {QUICK_RESULTS}.")
    return parser


def module_command(module: str, argv: Sequence[str]) -> str:
    """The command that runs ``module`` with these arguments, as typed in a shell."""
    return shlex.join(["python", "-m", module, *argv])


def result_folder(out: Path | None, *, quick: bool) -> Path:
    """Where an experiment writes: the folder that was asked for, else the documentation, else (quick) a scratch folder.

    Args:
        out: The folder given by the user, None if there is none.
        quick: Whether it is a smoke run.
    """
    if out is not None:
        return out
    return QUICK_RESULTS if quick else RESULTS


def cache_folder(name: str) -> Path:
    """Where the runs of an experiment are kept by default: ``~/.cache/nnunet-dro/<name>``, or below XDG_CACHE_HOME."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nnunet-dro" / name


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
) -> Path:
    """Write ``<name>.md``, ``<name>.png`` and ``<name>.csv``, each whole or not at all, the page last.

    Args:
        folder: Where to; made if it is not there.
        name: Name of the files, without suffix: lower-case letters, digits and hyphens.
        title: Heading of the page, plain text.
        text: What was asked and what came out, markdown, with headings from the second level on.
        table: Results, one row per line of the page's table. The page shows rounded numbers, the CSV all digits. An
            index without names is left out.
        figure: The picture.
        command: The exact command that makes this record again.
        seeds: Seeds of the random numbers; none where nothing is random.
        quick: Whether it is a smoke run, which the page then says on top.
        seconds: Duration of the experiment.

    Returns:
        The page's path.

    Raises:
        ValueError: If ``name`` cannot be a file name, ``table`` has no row, or ``seconds`` is negative or not finite.
    """
    _check_result(name, table, seconds)
    if any(label is not None for label in table.index.names):
        table = table.reset_index()
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / f"{name}.csv") as partial:
        table.to_csv(partial, index=False)
    with replacing(folder / f"{name}.png") as partial:
        figure.savefig(partial, dpi=150)
    parts = [
        f"# {title}",
        *([_SMOKE_RUN] if quick else []),
        text.strip(),
        "## Numbers",
        markdown_table(table),
        f"All digits are in [{name}.csv]({name}.csv).",
        f"![{title}]({name}.png)",
        "## How it was made",
        _provenance(command, seeds, quick, seconds),
    ]
    page = folder / f"{name}.md"
    with replacing(page) as partial:
        partial.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def cached_runs(
    folder: Path,
    runs: Mapping[str, Mapping[str, Any]],
    make: Callable[[str, Callable[[float], None]], Mapping[str, Any]],
    *,
    console: Console | None = None,
) -> dict[str, dict[str, Any]]:
    """The results of all runs, from the cache or made now and kept there: an interrupted experiment goes on.

    One JSON file per run, ``<name>-<digest>.json``, with the digest of the settings and of torch's version: a run with
    other settings is another run.

    Args:
        folder: Of the cache; made if it is not there.
        runs: Name of a run (part of its file's name) to all that decides it, of JSON's types.
        make: Makes the run of that name. Its second argument is a function to call with the share that is done, 0 to 1.
        console: Where to show the progress; standard error if not given.

    Returns:
        Name of a run to what ``make`` gave, as it comes back from JSON.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    results = {}
    with Progress(*columns, console=console or Console(stderr=True)) as progress:
        task = progress.add_task("runs", total=len(runs))
        for i, (name, settings) in enumerate(runs.items()):
            progress.update(task, description=f"run {i + 1} of {len(runs)}: {name}")
            key = {"settings": dict(settings), "torch": version("torch")}
            digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
            path = folder / f"{name}-{digest}.json"
            if not path.exists():
                result = make(name, lambda share, i=i: progress.update(task, completed=i + share))
                folder.mkdir(parents=True, exist_ok=True)
                with replacing(path) as partial:
                    partial.write_text(json.dumps({**key, "result": dict(result)}, indent=1) + "\n", encoding="utf-8")
            results[name] = json.loads(path.read_text(encoding="utf-8"))["result"]
            progress.update(task, completed=i + 1)
    return results


def _check_result(name: str, table: pd.DataFrame, seconds: float) -> None:
    if not name or not set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-"):
        raise ValueError(f"`name` must be of lower-case letters, digits and hyphens, got {name!r}. Rename the result.")
    if len(table) == 0:
        raise ValueError(f"`table` must have at least one row, got none for {name!r}. Run the experiment first.")
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"`seconds` must be finite and not negative, got {seconds!r}. Give the measured duration.")


def markdown_table(table: pd.DataFrame) -> str:
    """A table in markdown, numbers to the right and rounded to be read; the index is left out.

    The numbers of a column have the same decimals, so that its largest has three significant digits. Where a column
    spans more than four powers of ten, every number has three significant digits of its own. Missing values are a dash.

    Args:
        table: Columns of numbers, strings or booleans.

    Returns:
        The lines of the table, without a final newline.
    """
    columns = [_cells(table.iloc[:, i]) for i in range(table.shape[1])]
    headers = [_escaped(str(name)) for name in table.columns]
    numeric = [_is_number(table.iloc[:, i]) for i in range(table.shape[1])]
    widths = [max(3, len(header), *map(len, cells)) for header, cells in zip(headers, columns, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        )
        return "| " + " | ".join(padded) + " |"

    rule = ["-" * (width - 1) + (":" if right else "-") for width, right in zip(widths, numeric, strict=True)]
    return "\n".join([line(headers), line(rule), *(line(row) for row in zip(*columns, strict=True))])


def _is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _cells(column: pd.Series) -> list[str]:
    missing = column.isna().tolist()
    if _is_number(column) and not pd.api.types.is_integer_dtype(column):
        texts = _numbers([float("nan") if gone else float(v) for v, gone in zip(column, missing, strict=True)])
    else:
        texts = [_escaped(str(value)) for value in column]
    return ["–" if gone else text for text, gone in zip(texts, missing, strict=True)]


def _numbers(values: Sequence[float]) -> list[str]:
    sizes = [abs(value) for value in values if math.isfinite(value) and value != 0]
    if sizes and max(sizes) / min(sizes) > _WIDEST_RANGE:
        return [f"{value:.{_SIGNIFICANT_DIGITS}g}" for value in values]
    order = math.floor(math.log10(max(sizes))) if sizes else _SIGNIFICANT_DIGITS - 1
    if order < -_SIGNIFICANT_DIGITS:
        return [f"{value:.{_SIGNIFICANT_DIGITS - 1}e}" for value in values]
    decimals = max(0, _SIGNIFICANT_DIGITS - 1 - order)
    # Adding 0 turns the -0 that rounding leaves into 0.
    return [f"{round(value, decimals) + 0.0:.{decimals}f}" for value in values]


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _provenance(command: str, seeds: Sequence[int], quick: bool, seconds: float) -> str:
    packages = ", ".join(f"{package} {version(package)}" for package in ("torch", "numpy", "nnunetv2"))
    rows = {
        "Seeds": ", ".join(map(str, seeds)) or "none: nothing is random",
        "Versions": f"Python {platform.python_version()}, {packages}, nnunet-dro {nnunet_dro.__version__}",
        "Processor": f"{_processor()}, {torch.get_num_threads()} of {os.cpu_count()} cores used",
        "Date": datetime.now(timezone.utc).date().isoformat(),
        "Duration": _duration(seconds),
        "Kind": "smoke run (`--quick`)" if quick else "full run",
    }
    return "\n".join([f"```bash\n{command}\n```\n", *(f"- {key}: {value}" for key, value in rows.items())])


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.processor() or platform.machine() or "unknown processor"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
