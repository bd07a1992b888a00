"""nnU-Net with wrong labels in the training data: what each training method makes of them.

    python -m experiments.label_noise --work FOLDER
    python -m experiments.label_noise --work FOLDER --rare
    python -m experiments.label_noise --work FOLDER --data Dataset004_Hippocampus

Plain nnU-Net, DRO, DORO and learning to reweight are trained on a dataset of which 30 % of the label maps are spoilt
(phantoms, or with ``--data`` the hippocampus), on one processor core, and tested on cases with right labels. Finished
runs are in the work folder and are not run again.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich.console import Console

from experiments.label_noise.figure import draw
from experiments.label_noise.page import page_table, page_text
from experiments.label_noise.results import dice_by_label, separation_table, training_cases
from experiments.label_noise.studies import TRAINERS, hippocampus_study, phantom_study
from experiments.nnunet_runs.command_line import QUICK_SEEDS, SEEDS, page_command, report_page, study_parser
from experiments.nnunet_runs.results import collect, finished_runs
from experiments.nnunet_runs.runs import baseline_first, run_study
from experiments.nnunet_runs.study import BASELINE, Study
from experiments.record import result_folder, write_result, write_table

#: The methods of a smoke run.
QUICK_METHODS = (BASELINE, "L2RW")


def main(words: Sequence[str] | None = None) -> int:
    """Run the experiment; returns the exit code: 2 if the input must be corrected, 1 if nnU-Net fails."""
    parser = study_parser("label_noise", str(__doc__).splitlines()[0], methods=tuple(TRAINERS))
    parser.add_argument("--rare", action="store_true", help="Include phantoms of the rare pathology in the training.")
    arguments = parser.parse_args(words)
    quick = arguments.quick

    def make(console: Console) -> Path:
        return run(
            _study(arguments),
            work=arguments.work,
            out=result_folder(arguments.out, quick=quick),
            seeds=arguments.seeds or (QUICK_SEEDS if quick else SEEDS),
            methods=arguments.methods or (QUICK_METHODS if quick else tuple(TRAINERS)),
            quick=quick,
            console=console,
        )

    return report_page("label_noise", make)


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
    """Run what has not been run yet, and write the page.

    Args:
        study: From `phantom_study` or `hippocampus_study`.
        work: Folder for everything the study makes.
        out: Folder for the page.
        seeds: Seeds of the datasets; all methods of a seed are run before the next seed.
        methods: Names from `TRAINERS`; the baseline is run first, named or not.
        quick: Whether it is a smoke run.
        console: Console for the progress.

    Returns:
        The page.

    Raises:
        CommandError: If a dataset cannot be prepared.
        ValueError: If the folder holds runs with other settings, or no method has finished beside the baseline.
    """
    methods = baseline_first(methods)
    folder = work.absolute() / f"label-noise-{study.name}{'-quick' if quick else ''}"
    runs, failures = run_study(study, folder, seeds, methods, console)
    results = collect(runs, methods)
    cases = pd.concat([training_cases(*finished) for finished in finished_runs(runs, methods)], ignore_index=True)
    table, separation = dice_by_label(results), separation_table(cases)
    name = "label-noise" if study.name == "phantoms" else f"label-noise-{study.name}"
    write_table(out / f"{name}-all.csv", table)
    write_table(out / f"{name}-separation.csv", separation)
    write_table(out / f"{name}-cases.csv", cases, float_format="%.6g")
    options = {"hippocampus": ["--data Dataset004_Hippocampus"], "rare-phantoms": ["--rare"]}.get(study.name, [])
    all_seeds = [of_seed.seed for of_seed in runs]
    return write_result(
        out,
        name,
        title=study.title,
        text=page_text(results, cases, table, separation, failures=failures, name=name, quick=quick),
        table=page_table(table),
        figure=draw(results, cases),
        command=page_command("label_noise", options=options, seeds=all_seeds, methods=methods, quick=quick),
        seeds=[of_seed.seed for of_seed in runs if of_seed.is_finished(BASELINE)],
        quick=quick,
        seconds=sum(of_seed.seconds(methods) for of_seed in runs),
    )


if __name__ == "__main__":
    sys.exit(main())
