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

from experiments.record.side_by_side import Piece, side_by_side
from nnunet_dro.files.atomic import replacing


def cache_folder(name: str) -> Path:
    """Default folder for the runs of an experiment: ``~/.cache/nnunet-dro/<name>``, or below XDG_CACHE_HOME."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nnunet-dro" / name


def cached_runs(
    folder: Path,
    runs: Mapping[str, Mapping[str, Any]],
    make: Callable[[str, Callable[[float], None]], Mapping[str, Any]],
    *,
    minutes: Callable[[str], float],
    jobs: int = 1,
    console: Console | None = None,
) -> dict[str, dict[str, Any]]:
    """The results of all runs, from the cache or made now and kept there, so that an interrupted experiment can go on.

    One JSON file per run, ``<name>-<digest>.json``, with the digest of the settings and of torch's version: a run with
    other settings is another run. It is said beforehand how long the runs will take that are not there.

    Args:
        folder: Folder of the cache; it is created if necessary.
        runs: Name of a run (part of its file's name) to everything that determines it, in JSON's types.
        make: Makes the run of that name. Its second argument is a function to call with the share that is done, 0 to 1.
            Where several runs are made at the same time, it is sent to other processes.
        minutes: Minutes of a processor core that the run of that name takes, about.
        jobs: Runs that are made at the same time.
        console: Console for the progress; standard error if not given.

    Returns:
        Name of a run to what ``make`` gave, as it comes back from JSON.
    """
    keys = {name: {"settings": dict(settings), "torch": version("torch")} for name, settings in runs.items()}
    paths = {name: folder / f"{name}-{_digest(key)}.json" for name, key in keys.items()}
    missing = {
        name: Piece(partial(_make, make, name, key, paths[name]), minutes(name))
        for name, key in keys.items()
        if not paths[name].exists()
    }
    for _ in side_by_side(missing, jobs=jobs, console=console or Console(stderr=True)):
        pass
    return {name: json.loads(path.read_text(encoding="utf-8"))["result"] for name, path in paths.items()}


def _digest(key: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]


def _make(
    make: Callable[[str, Callable[[float], None]], Mapping[str, Any]],
    name: str,
    key: Mapping[str, Any],
    path: Path,
    progress: Callable[[float], None],
) -> None:
    """Make a run, unless another command has made it in the meantime."""
    if path.exists():
        return
    content = json.dumps({**key, "result": dict(make(name, progress))}, indent=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as unfinished:
        unfinished.write_text(f"{content}\n", encoding="utf-8")
