"""4 against 9, imbalanced: weights learnt from ten trusted images, against the usual remedies for a rare class.

    python -m experiments.imbalanced_pair [--published] [--quick] [--out FOLDER] [--cache FOLDER]

After section 4.1 of Ren et al. 2018; with ``--published`` at the settings of their code, which takes an hour of a
processor core. Finished runs are kept in the cache: an interrupted experiment continues.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from experiments.datasets.mnist import load_digits
from experiments.imbalanced_pair.page import draw_errors, page_text
from experiments.imbalanced_pair.plan import TUNING_SEED, chosen_rate, planned_runs, published_runs, tuning_runs
from experiments.imbalanced_pair.published import draw_published, published_rows, published_table, published_text
from experiments.imbalanced_pair.results import compared, results_table, shown_table
from experiments.imbalanced_pair.training import Outcome, Run, split_pair, train
from experiments.record import (
    add_jobs,
    cache_folder,
    cached_runs,
    experiment_parser,
    module_command,
    result_folder,
    write_result,
    write_table,
)

#: Minutes of a processor core that a step takes, about.
MINUTES = 1.4e-4

#: Makes trainings, or finds them in the cache.
ResultsOf = Callable[[Sequence[Run]], list[tuple[Run, Outcome]]]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = experiment_parser("imbalanced_pair", str(__doc__).splitlines()[0])
    folder = cache_folder("imbalanced-pair")
    parser.add_argument("--cache", type=Path, default=folder, help="Folder for finished runs (default: %(default)s).")
    parser.add_argument(
        "--published",
        action="store_true",
        help="Train at the settings of the authors' published code, on 5,000 images that are made of the digits.",
    )
    add_jobs(parser)
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    try:
        images, digits = load_digits()
    except ImportError as error:
        parser.exit(2, f"{error}\n")
    # One thread adds up in the same order on every machine.
    torch.set_num_threads(1)

    def results_of(planned: Sequence[Run]) -> list[tuple[Run, Outcome]]:
        runs = {_name(run): run for run in planned}

        def make(name: str, progress: Callable[[float], None]) -> dict[str, object]:
            return asdict(train(runs[name], split_pair(images, digits, runs[name]), progress=progress))

        keys = {name: asdict(run) for name, run in runs.items()}
        made = cached_runs(
            arguments.cache, keys, make, minutes=lambda name: MINUTES * runs[name].steps, jobs=arguments.jobs
        )
        return [(runs[name], Outcome(**content)) for name, content in made.items()]

    write = _write_published if arguments.published else _write
    page = write(
        results_of,
        folder=result_folder(arguments.out, quick=arguments.quick),
        command=module_command("experiments.imbalanced_pair", argv),
        quick=arguments.quick,
    )
    sys.stdout.write(f"{page}\n")


def _name(run: Run) -> str:
    made = "-made" if run.made else ""
    return f"{run.method}-{run.ratio}to1{made}-rate{run.learning_rate:g}-seed{run.seed}".replace(" ", "-")


def _write(results_of: ResultsOf, *, folder: Path, command: str, quick: bool) -> Path:
    tuning = results_of(tuning_runs(quick=quick))
    results = results_of(planned_runs(chosen_rate(tuning), quick=quick))
    rows = compared(results)
    return write_result(
        folder,
        "imbalanced-pair",
        title="4 against 9, imbalanced",
        text=page_text(rows, results[0][0]),
        table=results_table(rows),
        shown=shown_table(results_table(rows)),
        figure=draw_errors(rows),
        command=command,
        seeds=[*sorted(rows["seed"].unique()), TUNING_SEED],
        quick=quick,
        seconds=sum(outcome.seconds for _, outcome in [*tuning, *results]),
    )


def _write_published(results_of: ResultsOf, *, folder: Path, command: str, quick: bool) -> Path:
    results = results_of(published_runs(quick=quick))
    rows = compared(results)
    write_table(folder / "imbalanced-pair-published-all.csv", published_rows(rows))
    return write_result(
        folder,
        "imbalanced-pair-published",
        title="4 against 9, at the settings of the published code",
        text=published_text(rows, results[0][0]),
        table=published_table(rows),
        figure=draw_published(rows),
        command=command,
        seeds=sorted(rows["seed"].unique()),
        quick=quick,
        seconds=sum(outcome.seconds for _, outcome in results),
    )


if __name__ == "__main__":
    main()
