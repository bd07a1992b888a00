"""nnU-Net with wrong labels in the training data: what each training makes of them.

    python -m experiments.label_noise --work FOLDER
    python -m experiments.label_noise --work FOLDER --rare
    python -m experiments.label_noise --work FOLDER --data Dataset004_Hippocampus

Plain nnU-Net, DRO, DORO and learning to reweight are trained on a dataset of which 30 % of the label maps are spoilt
(phantoms, or with ``--data`` the hippocampus), on one processor core, and tested on right ones. What is finished is in
the work folder and is not done again.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from experiments.label_noise.figure import draw
from experiments.label_noise.page import page_table, page_text
from experiments.label_noise.results import collect, dice_table, separation_table
from experiments.label_noise.studies import TRAINERS, hippocampus_study, phantom_study
from experiments.nnunet_runs.runs import SeedRuns, claim, run_all
from experiments.record import experiment_parser, result_folder, write_result
from experiments.segmentation.studies import BASELINE, Study
from nnunet_dro.atomic import replacing
from nnunet_dro.nnunet.command import CommandError

#: What a smoke run trains.
QUICK_METHODS, QUICK_SEEDS = (BASELINE, "L2RW"), (0,)


def main(words: Sequence[str] | None = None) -> int:
    """Run the experiment; returns the exit code: 2 if something must be put right first, 1 if nnU-Net fails."""
    arguments = _parser().parse_args(words)
    quick, console = arguments.quick, Console(soft_wrap=True)
    try:
        page = run(
            _study(arguments),
            work=arguments.work,
            out=result_folder(arguments.out, quick=quick),
            seeds=arguments.seeds or (QUICK_SEEDS if quick else (0, 1, 2)),
            methods=arguments.methods or (QUICK_METHODS if quick else tuple(TRAINERS)),
            quick=quick,
            console=console,
        )
    except (ValueError, OSError, CommandError) as error:
        Console(stderr=True, soft_wrap=True).print(f"label_noise: {error}", markup=False, highlight=False)
        return 1 if isinstance(error, CommandError) else 2
    console.print(page, highlight=False, markup=False)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = experiment_parser(str(__doc__).splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, help="folder for data, trainings and predictions")
    parser.add_argument("--data", type=Path, help="the raw hippocampus dataset, with cases.csv (default: phantoms)")
    parser.add_argument("--rare", action="store_true", help="phantoms of the rare pathology, too, in the training")
    parser.add_argument("--seeds", type=int, nargs="+", help="of the datasets (default: 0 1 2)")
    parser.add_argument("--methods", nargs="+", choices=tuple(TRAINERS), help="default: all", metavar="METHOD")
    return parser


def _study(arguments: argparse.Namespace) -> Study:
    if arguments.data is None:
        return phantom_study(quick=arguments.quick, rare=arguments.rare)
    if arguments.rare:
        raise ValueError("`rare` must be for the phantoms, got it with `data`. Leave one of them out.")
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
        study: From `phantom_study` or `hippocampus_study`.
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
    folder = work.absolute() / f"label-noise-{study.name}{'-quick' if quick else ''}"
    claim(folder, study)
    runs = [SeedRuns(folder / f"seed{seed}", study, seed) for seed in dict.fromkeys(seeds)]
    failures = run_all(runs, methods, console)
    results = collect(runs, methods)
    table, separation = dice_table(results), separation_table(results.cases)
    name = "label-noise" if study.name == "phantoms" else f"label-noise-{study.name}"
    out.mkdir(parents=True, exist_ok=True)
    for suffix, rows in (("all", table), ("separation", separation), ("cases", results.cases)):
        with replacing(out / f"{name}-{suffix}.csv") as partial:
            rows.to_csv(partial, index=False, float_format="%.6g" if suffix == "cases" else None)
    return write_result(
        out,
        name,
        title=study.title,
        text=page_text(results, table, separation, failures=failures, name=name, quick=quick),
        table=page_table(table),
        figure=draw(results),
        command=_command(study, [of_seed.seed for of_seed in runs], methods, quick=quick),
        seeds=[of_seed.seed for of_seed in runs if of_seed.is_finished(BASELINE)],
        quick=quick,
        seconds=sum(of_seed.seconds(methods) for of_seed in runs),
    )


def _command(study: Study, seeds: Sequence[int], methods: Sequence[str], *, quick: bool) -> str:
    """The command that makes the page again, in a folder of one's own."""
    words = ["python -m experiments.label_noise --work FOLDER"]
    words += {"hippocampus": ["--data Dataset004_Hippocampus"], "rare-phantoms": ["--rare"]}.get(study.name, [])
    words += ["--seeds", *map(str, seeds), "--methods", *methods, *(["--quick"] if quick else [])]
    return " ".join(words)


if __name__ == "__main__":
    sys.exit(main())
