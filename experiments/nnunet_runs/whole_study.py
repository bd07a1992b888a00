"""All runs of a study: a dataset per seed, and on it each method.

Finished runs are skipped the next time; failed runs are recorded and tried again.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from experiments.nnunet_runs.runs import SeedRuns
from experiments.nnunet_runs.study import BASELINE, Study
from experiments.record.side_by_side import Piece, side_by_side
from nnunet_dro.files.atomic import replacing
from nnunet_dro.nnunet.command import CommandError


def claim(folder: Path, study: Study) -> None:
    """Claim a folder for runs with this study's settings, or check that its runs have them.

    Raises:
        ValueError: If it holds runs with other settings.
    """
    # Trainings of earlier versions, which were not seeded, are no partners of today's.
    settings: dict[str, object] = {"epochs": study.epochs, "iterations": study.iterations, "seeded": True}
    settings |= {"batch_size": study.batch_size, **study.settings}
    recorded = folder / "settings.json"
    if not recorded.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(recorded) as partial:
            partial.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        return
    before, now = json.loads(recorded.read_text(encoding="utf-8")), json.loads(json.dumps(settings))
    differing = next((name for name in sorted({*before, *now}) if before.get(name) != now.get(name)), None)
    if differing is not None:
        values = f"{differing} {before.get(differing)!r} instead of {now.get(differing)!r}"
        was = f"{str(folder)!r}, which holds runs with {values}"
        raise ValueError(f"`work` must be a new folder or one of the same settings, got {was}. Choose another.")


def run_study(
    study: Study, folder: Path, seeds: Sequence[int], methods: Sequence[str], console: Console, *, jobs: int = 1
) -> tuple[list[SeedRuns], dict[str, str]]:
    """Run what is not finished of a study.

    Args:
        study: The study.
        folder: Folder of everything that is made.
        seeds: Seeds of the datasets, in order; each is run once.
        methods: The methods, in order.
        console: Console for the progress.
        jobs: Runs at the same time.

    Returns:
        The runs of each seed, and the runs that failed, as from `run_all`.

    Raises:
        CommandError: If a dataset cannot be prepared.
        ValueError: If the folder holds runs with other settings.
    """
    claim(folder, study)
    runs = [SeedRuns(folder / f"seed{seed}", study, seed) for seed in dict.fromkeys(seeds)]
    return runs, run_all(runs, methods, console, jobs=jobs)


def run_all(runs: Sequence[SeedRuns], methods: Sequence[str], console: Console, *, jobs: int = 1) -> dict[str, str]:
    """Run what is not finished; all methods of a seed are begun before those of the next seed.

    Args:
        runs: The seeds, in order.
        methods: The methods, in order.
        console: Console for the progress.
        jobs: Runs at the same time.

    Returns:
        Failed runs, as "seed 0, beta10", and why. They are in ``failures.json`` beside the seeds' folders, too.

    Raises:
        CommandError: If a dataset cannot be prepared.
    """
    pieces: dict[str, Piece[dict[str, str]]] = {}
    for of_seed in runs:
        for chain in _chains(of_seed.study, methods):
            if missing := [method for method in chain if not of_seed.is_finished(method)]:
                minutes = sum(of_seed.study.minutes(method) for method in missing)
                pieces[f"Seed {of_seed.seed}: {', '.join(missing)}"] = Piece(partial(_run, of_seed, missing), minutes)
    failures: dict[str, str] = {}
    # An earlier command's failures are no longer true.
    _note_failures(runs, failures)
    for _, failed in side_by_side(pieces, jobs=jobs, console=console):
        failures |= failed
        _note_failures(runs, failures)
        for name, error in failed.items():
            reason = next((line for line in reversed(error.splitlines()[:-1]) if line.strip()), error)
            console.print(f"{name} failed: {reason.strip()}", highlight=False, markup=False)
    return failures


def _chains(study: Study, methods: Sequence[str]) -> list[list[str]]:
    """The methods that start from random weights, each with those that start from its model."""
    of_source: dict[str, list[str]] = {}
    for method in methods:
        of_source.setdefault(study.sources.get(method, method), []).append(method)
    return list(of_source.values())


def _run(of_seed: SeedRuns, methods: Sequence[str], progress: Callable[[float], None]) -> dict[str, str]:
    """Run methods one after another; returns the failed ones, and why."""
    of_seed.prepare()
    failures = {}
    for i, method in enumerate(methods):
        try:
            of_seed.run(method, partial(_progress_of, progress, i, len(methods)))
        except (CommandError, ValueError, OSError) as error:
            failures[f"seed {of_seed.seed}, {method}"] = str(error)
    return failures


def _progress_of(progress: Callable[[float], None], i: int, n_methods: int, share: float) -> None:
    progress((i + share) / n_methods)


def _note_failures(runs: Sequence[SeedRuns], failures: Mapping[str, str]) -> None:
    if runs:
        with replacing(runs[0].folder.parent / "failures.json") as partial_file:
            partial_file.write_text(json.dumps(failures, indent=2) + "\n", encoding="utf-8")


def baseline_first(methods: Sequence[str]) -> tuple[str, ...]:
    """The methods, each once, the baseline among them and first."""
    return (BASELINE, *(method for method in dict.fromkeys(methods) if method != BASELINE))
