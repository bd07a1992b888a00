"""Finished runs are kept, so that an interrupted experiment goes on."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from nnunet_dro.atomic import replacing


def cache_folder(name: str) -> Path:
    """Default folder for the runs of an experiment: ``~/.cache/nnunet-dro/<name>``, or below XDG_CACHE_HOME."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nnunet-dro" / name


def cached_runs(
    folder: Path,
    runs: Mapping[str, Mapping[str, Any]],
    make: Callable[[str, Callable[[float], None]], Mapping[str, Any]],
    *,
    console: Console | None = None,
) -> dict[str, dict[str, Any]]:
    """The results of all runs, from the cache or made now and kept there, so that an interrupted experiment can go on.

    One JSON file per run, ``<name>-<digest>.json``, with the digest of the settings and of torch's version: a run with
    other settings is another run.

    Args:
        folder: Folder of the cache; it is created if necessary.
        runs: Name of a run (part of its file's name) to everything that determines it, in JSON's types.
        make: Makes the run of that name. Its second argument is a function to call with the share that is done, 0 to 1.
        console: Console for the progress; standard error if not given.

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
                result = make(name, partial(_advance, progress, task, i))
                content = json.dumps({**key, "result": dict(result)}, indent=1)
                folder.mkdir(parents=True, exist_ok=True)
                with replacing(path) as unfinished:
                    unfinished.write_text(f"{content}\n", encoding="utf-8")
            results[name] = json.loads(path.read_text(encoding="utf-8"))["result"]
            progress.update(task, completed=i + 1)
    return results


def _advance(progress: Progress, task: TaskID, n_done: int, share: float) -> None:
    progress.update(task, completed=n_done + share)
