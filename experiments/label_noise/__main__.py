"""nnU-Net with wrong labels in the training data: what each training method makes of them.

    python -m experiments.label_noise --work FOLDER

Plain nnU-Net on all cases, on those with right labels and continued on trusted ones, random weights, DRO, DORO and
learning to reweight are trained on phantoms of which 30 % have a spoilt label map, and tested on cases with right
labels. Finished runs are in the work folder and are not run again: several commands, each with seeds of its own, may
fill the same folder. The page has the runs that are finished.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich.console import Console

from experiments.curves import draw_differences
from experiments.label_noise.page import page_table, page_text, shown_table
from experiments.label_noise.results import dice_differences, rows_by_seed, training_cases
from experiments.label_noise.studies import FINETUNED, METHODS, RIGHT, phantom_study, roles
from experiments.nnunet_runs.command_line import QUICK_SEEDS, page_command, report_page, study_parser
from experiments.nnunet_runs.results import ALL_LABELS, collect, finished_runs
from experiments.nnunet_runs.study import BASELINE, Study
from experiments.nnunet_runs.whole_study import baseline_first, run_study
from experiments.record import result_folder, write_result, write_table
from experiments.spoilt_labels.figure import draw_cases
from experiments.spoilt_labels.separation import separation_table
from nnunet_dro.files.atomic import replacing

#: Seeds of the data and the trainings.
SEEDS = tuple(range(5))

#: The methods of a smoke run.
QUICK_METHODS = (BASELINE, RIGHT, FINETUNED, "random", "L2RW")

#: Name of the page's files.
NAME = "label-noise"


def main(words: Sequence[str] | None = None) -> int:
    """Run the experiment; returns the exit code: 2 if the input must be corrected, 1 if nnU-Net fails."""
    description = str(__doc__).splitlines()[0]
    parser = study_parser("label_noise", description, methods=METHODS, seeds=SEEDS)
    arguments = parser.parse_args(words)
    quick = arguments.quick

    def make(console: Console) -> Path:
        return run(
            phantom_study(quick=quick),
            work=arguments.work,
            out=result_folder(arguments.out, quick=quick),
            seeds=arguments.seeds or (QUICK_SEEDS if quick else SEEDS),
            methods=arguments.methods or (QUICK_METHODS if quick else METHODS),
            quick=quick,
            jobs=arguments.jobs,
            console=console,
        )

    return report_page("label_noise", make)


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
        study: From `phantom_study`.
        work: Folder for everything the study makes.
        out: Folder for the page.
        seeds: Seeds of the datasets and the trainings; all methods of a seed are run before the next seed.
        methods: Names from `METHODS`; the baseline is run first, named or not.
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
    folder = work.absolute() / f"label-noise-{study.name}{'-quick' if quick else ''}"
    runs, failures = run_study(study, folder, seeds, methods, console, jobs=jobs)
    results = collect(runs, methods)
    logged = [(of_seed, method) for of_seed, method in finished_runs(runs, methods) if method not in study.subsets]
    cases = pd.concat([training_cases(*finished) for finished in logged], ignore_index=True)
    tables = {"seeds": rows_by_seed(results), "cases": cases, "separation": separation_table(cases)}
    # The page shows what is in the files, rounded once.
    scores, cases, separation = (_written(out / f"{NAME}-{suffix}.csv", table) for suffix, table in tables.items())
    with replacing(out / f"{NAME}-cases.png") as partial:
        draw_cases(cases).savefig(partial, dpi=150)
    found = dice_differences(scores, study)
    found, of_all = (table[table["label"] == ALL_LABELS] for table in (found, scores))
    return write_result(
        out,
        NAME,
        title=study.title,
        text=page_text(scores, cases, separation, study, failures=failures, name=NAME),
        table=page_table(scores, study),
        shown=shown_table(page_table(scores, study)),
        figure=draw_differences(found, of_all, roles(study)),
        command=page_command("label_noise", seeds=[of_seed.seed for of_seed in runs], methods=methods, quick=quick),
        seeds=[of_seed.seed for of_seed in runs if of_seed.is_finished(BASELINE)],
        quick=quick,
        seconds=sum(of_seed.seconds(methods) for of_seed in runs),
    )


def _written(path: Path, table: pd.DataFrame) -> pd.DataFrame:
    """Write a table, and return it as it is in the file."""
    write_table(path, table, float_format="%.6g")
    return pd.read_csv(path, dtype={"case": str} if "case" in table else None)


if __name__ == "__main__":
    sys.exit(main())
