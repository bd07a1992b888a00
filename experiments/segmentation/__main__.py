"""nnU-Net on data with a known hidden stratum: which training finds the rare cases, and what do the others pay?

    python -m experiments.segmentation phantoms --work FOLDER
    python -m experiments.segmentation few-phantoms --work FOLDER --methods beta10_noIS cvar0.1
    python -m experiments.segmentation hippocampus --work FOLDER --data Dataset004_Hippocampus

Every method is trained with nnU-Net on the dataset of every seed, on one processor core, and compared with plain
nnU-Net by stratum. What is finished is in the work folder and is not done again; runs that failed are tried again the
next time. The page, its picture and its tables show the runs that are finished.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from experiments.nnunet_runs.runs import SeedRuns, claim, run_all
from experiments.record import result_folder, write_result
from experiments.segmentation.figure import draw
from experiments.segmentation.page import page_table, page_text
from experiments.segmentation.results import collect, summary_rows
from experiments.segmentation.studies import (
    BASELINE,
    TRAINERS,
    Study,
    few_phantoms_study,
    hippocampus_study,
    phantom_study,
)
from nnunet_dro.atomic import replacing
from nnunet_dro.nnunet.command import CommandError

#: What a smoke run trains.
QUICK_METHODS, QUICK_SEEDS = (BASELINE, "beta10_noIS"), (0,)


def main(words: Sequence[str] | None = None) -> int:
    """Run a study; returns the exit code: 2 if something must be put right first, 1 if a dataset cannot be prepared."""
    arguments = _parser().parse_args(words)
    console = Console(soft_wrap=True)
    try:
        page = run(
            _study(arguments),
            work=arguments.work,
            out=result_folder(arguments.out, quick=arguments.quick),
            seeds=arguments.seeds or (QUICK_SEEDS if arguments.quick else (0, 1, 2)),
            methods=arguments.methods or (QUICK_METHODS if arguments.quick else tuple(TRAINERS)),
            quick=arguments.quick,
            console=console,
        )
    except (ValueError, OSError, CommandError) as error:
        Console(stderr=True, soft_wrap=True).print(f"segmentation: {error}", markup=False, highlight=False)
        return 1 if isinstance(error, CommandError) else 2
    console.print(page, highlight=False, markup=False)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("study", choices=("phantoms", "few-phantoms", "hippocampus"))
    parser.add_argument("--work", type=Path, required=True, help="folder for data, trainings and predictions")
    parser.add_argument("--out", type=Path, help="folder for the page (default: docs/results)")
    parser.add_argument("--data", type=Path, help="hippocampus: the raw dataset, with cases.csv")
    parser.add_argument("--seeds", type=int, nargs="+", help="of the datasets (default: 0 1 2)")
    parser.add_argument("--methods", nargs="+", choices=tuple(TRAINERS), help="default: all", metavar="METHOD")
    parser.add_argument("--quick", action="store_true", help="smoke run: few cases and iterations, two methods")
    return parser


def _study(arguments: argparse.Namespace) -> Study:
    if arguments.study == "phantoms":
        return phantom_study(quick=arguments.quick)
    if arguments.study == "few-phantoms":
        return few_phantoms_study(quick=arguments.quick)
    if arguments.data is None:
        raise ValueError("`data` must be the raw hippocampus dataset, got none. Give its folder with --data.")
    return hippocampus_study(arguments.data, quick=arguments.quick)


def run(
    study: Study,
    *,
    work: Path,
    out: Path,
    seeds: Sequence[int],
    methods: Sequence[str],
    quick: bool = False,
    console: Console,
) -> Path:
    """Do what is not done yet, and write the page.

    Args:
        study: The study.
        work: Folder for everything the study makes.
        out: Folder for the page.
        seeds: Of the datasets; all methods of a seed are run before the next seed.
        methods: Names from `TRAINERS`; the baseline is run first, named or not.
        quick: Whether it is a smoke run.
        console: Where to say what is done.

    Returns:
        The page.

    Raises:
        CommandError: If a dataset cannot be prepared.
        ValueError: If the folder holds runs of other settings, or no method has finished beside the baseline.
    """
    methods = (BASELINE, *(method for method in dict.fromkeys(methods) if method != BASELINE))
    folder = work.absolute() / (f"{study.name}-quick" if quick else study.name)
    claim(folder, study)
    runs = [SeedRuns(folder / f"seed{seed}", study, seed) for seed in dict.fromkeys(seeds)]
    failures = run_all(runs, methods, console)
    results = collect(runs, methods)
    table = summary_rows(results)
    finished = [of_seed for of_seed in runs if of_seed.is_finished(BASELINE)]
    n_training = finished[0].n_training
    name = f"segmentation-{study.name}"
    out.mkdir(parents=True, exist_ok=True)
    with replacing(out / f"{name}-all.csv") as partial:
        table.to_csv(partial, index=False)
    return write_result(
        out,
        name,
        title=study.title,
        text=page_text(results, table, n_training, failures=failures, quick=quick),
        table=page_table(table, study),
        figure=draw(results, table, n_training),
        command=_command(study, [of_seed.seed for of_seed in runs], methods, quick=quick),
        seeds=[of_seed.seed for of_seed in finished],
        quick=quick,
        seconds=sum(of_seed.seconds(methods) for of_seed in runs),
    )


def _command(study: Study, seeds: Sequence[int], methods: Sequence[str], *, quick: bool) -> str:
    """The command that makes the page again, in a folder of one's own."""
    words = ["python -m experiments.segmentation", study.name, "--work FOLDER"]
    words += ["--data Dataset004_Hippocampus"] if study.name == "hippocampus" else []
    words += ["--seeds", *map(str, seeds), "--methods", *methods, *(["--quick"] if quick else [])]
    return " ".join(words)


if __name__ == "__main__":
    sys.exit(main())
