"""Finetuning a plain nnU-Net on data with a known hidden stratum: what do the rare cases gain, and what do others pay?

    python -m experiments.segmentation finetuning --work FOLDER

Every method is trained with nnU-Net on the dataset of every seed, and compared with plain nnU-Net by stratum. Finished
runs are in the work folder and are not run again; runs that failed are tried again the next time. The page, its picture
and its tables show the finished runs.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from experiments.nnunet_runs.command_line import QUICK_SEEDS, SEEDS, page_command, report_page, study_parser
from experiments.nnunet_runs.results import collect, seed_rows
from experiments.nnunet_runs.study import BASELINE, Study
from experiments.nnunet_runs.whole_study import baseline_first, run_study
from experiments.record import result_folder, write_result, write_table
from experiments.segmentation.figure import draw
from experiments.segmentation.page import page_table, page_text, shown_columns
from experiments.segmentation.results import summary_rows
from experiments.segmentation.studies import FINETUNING_TRAINERS, finetuning_study

_STUDIES = {"finetuning": finetuning_study}


def main(words: Sequence[str] | None = None) -> int:
    """Run a study; returns the exit code: 2 if the input must be corrected, 1 if a dataset cannot be prepared."""
    methods = tuple(FINETUNING_TRAINERS)
    parser = study_parser("segmentation", str(__doc__).splitlines()[0], methods=methods)
    parser.add_argument("study", choices=tuple(_STUDIES))
    arguments = parser.parse_args(words)

    def make(console: Console) -> Path:
        study = _STUDIES[arguments.study](quick=arguments.quick)
        methods = arguments.methods or tuple(study.trainers)
        if arguments.quick and not arguments.methods:
            methods = tuple(study.trainers)[:2]
        return run(
            study,
            work=arguments.work,
            out=result_folder(arguments.out, quick=arguments.quick),
            seeds=arguments.seeds or (QUICK_SEEDS if arguments.quick else SEEDS),
            methods=methods,
            quick=arguments.quick,
            jobs=arguments.jobs,
            console=console,
        )

    return report_page("segmentation", make)


def run(
    study: Study,
    *,
    work: Path,
    out: Path,
    seeds: Sequence[int],
    methods: Sequence[str],
    quick: bool = False,
    jobs: int = 1,
    console: Console,
) -> Path:
    """Run what has not been run yet, and write the page.

    Args:
        study: The study.
        work: Folder for everything the study makes.
        out: Folder for the page.
        seeds: Seeds of the datasets; all methods of a seed are run before the next seed.
        methods: Names of the study's methods; the baseline is run first, named or not.
        quick: Whether it is a smoke run.
        jobs: Trainings at the same time.
        console: Console for the progress.

    Returns:
        The page.

    Raises:
        CommandError: If a dataset cannot be prepared.
        ValueError: If the folder holds runs with other settings, or no method has finished beside the baseline.
    """
    methods = baseline_first(methods)
    folder = work.absolute() / (f"{study.name}-quick" if quick else study.name)
    runs, failures = run_study(study, folder, seeds, methods, console, jobs=jobs)
    results = collect(runs, methods)
    table = summary_rows(results)
    finished = [of_seed for of_seed in runs if of_seed.is_finished(BASELINE)]
    n_training = finished[0].n_training
    name = f"segmentation-{study.name}"
    write_table(out / f"{name}-all.csv", table)
    by_seed = seed_rows(results)
    write_table(out / f"{name}-seeds.csv", by_seed)
    all_seeds = [of_seed.seed for of_seed in runs]
    return write_result(
        out,
        name,
        title=study.title,
        text=page_text(results, table, n_training, by_seed=by_seed, failures=failures, quick=quick),
        table=page_table(table, study),
        shown=shown_columns(page_table(table, study)),
        figure=draw(results, table, n_training),
        command=page_command(f"segmentation {study.name}", seeds=all_seeds, methods=methods, quick=quick),
        seeds=[of_seed.seed for of_seed in finished],
        quick=quick,
        seconds=sum(of_seed.seconds(methods) for of_seed in runs),
    )


if __name__ == "__main__":
    sys.exit(main())
