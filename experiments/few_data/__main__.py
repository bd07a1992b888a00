"""nnU-Net with eight training cases: plain, with label smoothing, and with GI-LS, both tuned as a user would.

    python -m experiments.few_data --work FOLDER --data Dataset004_Hippocampus
    python -m experiments.few_data --work FOLDER

`nnunet-dro tune` chooses the options on two of the training cases of the first seed; the best ones are trained with the
cases of every seed, on one processor core, and tested on many others (of the hippocampus with ``--data``, else of
phantoms). Finished runs are in the work folder and are not run again.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from rich.console import Console

from experiments.few_data.cost import cost_table
from experiments.few_data.figure import draw
from experiments.few_data.page import page_table, page_text
from experiments.few_data.results import summary
from experiments.few_data.studies import (
    LONG_GILS,
    METHODS,
    QUICK_METHODS,
    TUNED,
    FewDataRuns,
    hippocampus_study,
    phantom_study,
)
from experiments.few_data.tuning import Tuning, tune
from experiments.nnunet_runs.command_line import QUICK_SEEDS, SEEDS, page_command, report_page, study_parser
from experiments.nnunet_runs.plans import CONFIGURATION, PLANS_NAME
from experiments.nnunet_runs.results import collect
from experiments.nnunet_runs.runs import claim, run_all
from experiments.nnunet_runs.study import BASELINE, Study
from experiments.record import result_folder, write_result, write_table
from nnunet_dro.demo.progress import step_progress
from nnunet_dro.nnunet.command import run_command


def main(words: Sequence[str] | None = None) -> int:
    """Run the experiment; returns the exit code: 2 if the input must be corrected, 1 if a command fails."""
    arguments = study_parser("few_data", str(__doc__).splitlines()[0]).parse_args(words)
    quick = arguments.quick

    def make(console: Console) -> Path:
        return run(
            hippocampus_study(arguments.data, quick=quick) if arguments.data else phantom_study(quick=quick),
            work=arguments.work,
            out=result_folder(arguments.out, quick=quick),
            seeds=arguments.seeds or (QUICK_SEEDS if quick else SEEDS),
            quick=quick,
            console=console,
        )

    return report_page("few_data", make)


def run(study: Study, *, work: Path, out: Path, seeds: Sequence[int], quick: bool = False, console: Console) -> Path:
    """Run what has not been run yet, and write the page.

    Args:
        study: From `hippocampus_study` or `phantom_study`.
        work: Folder for everything the study makes.
        out: Folder for the page.
        seeds: Seeds of the datasets; all methods of a seed are run before the next. Options are tuned on the first.
        quick: Whether it is a smoke run.
        console: Console for the progress.

    Returns:
        The page.

    Raises:
        CommandError: If a dataset cannot be prepared, a tuning or the measurement of the cost fails.
        ValueError: If the folder holds runs with other settings, or no method has finished beside the baseline.
    """
    folder, seeds = work.absolute() / f"few-data-{study.name}{'-quick' if quick else ''}", tuple(dict.fromkeys(seeds))
    methods = QUICK_METHODS if quick else METHODS
    claim(folder, study)
    tuned_on = FewDataRuns(folder / f"seed{seeds[0]}", study, seeds[0])
    tuned_on.prepare(console)
    tunings = [tune(tuned_on, method, quick=quick, console=console) for method in TUNED]
    best = {tuning.method: tuning.trainer for tuning in tunings}
    study = replace(study, trainers={**study.trainers, **best, LONG_GILS: best["GI-LS"]})
    runs = [FewDataRuns(folder / f"seed{seed}", study, seed) for seed in seeds]
    for of_seed in runs:
        for method in methods:
            of_seed.set_aside(method)
    failures = run_all(runs, methods, console)
    cost = cost_table(pd.DataFrame(_cost_rows(tuned_on, quick=quick, console=console)))
    results = collect(runs, methods)
    table = summary(results)
    name = "few-data" if study.name == "hippocampus" else f"few-data-{study.name}"
    trials = pd.concat([tuning.trials.assign(method=tuning.method) for tuning in tunings], ignore_index=True)
    for suffix, rows in (("all", table), ("trials", trials), ("cost", cost)):
        write_table(out / f"{name}-{suffix}.csv", rows)
    options = ["--data Dataset004_Hippocampus"] if study.name == "hippocampus" else []
    return write_result(
        out,
        name,
        title=study.title,
        text=page_text(results, table, tunings, cost, failures=failures, name=name, quick=quick),
        table=page_table(table),
        figure=draw(results, cost),
        command=page_command("few_data", options=options, seeds=seeds, quick=quick),
        seeds=[of_seed.seed for of_seed in runs if of_seed.is_finished(BASELINE)],
        quick=quick,
        seconds=_seconds(runs, tunings),
    )


def _cost_rows(of_seed: FewDataRuns, *, quick: bool, console: Console) -> list[dict[str, float]]:
    """Measure the cost against T on the seed's data, or read what was measured before."""
    path = of_seed.folder / "cost.json"
    if not path.exists():
        module = "experiments.few_data.cost"
        command = [Path(sys.executable).name, "-m", module, of_seed.study.dataset, CONFIGURATION, "-p", PLANS_NAME]
        command += ["--times", str(path), *(["--quick"] if quick else [])]
        # Trainers make their folders of results, in which nobody is to find half a training.
        environment = of_seed.environment | {"nnUNet_results": str(of_seed.folder / "cost")}
        with step_progress(console, "Cost of an iteration against T"):
            log = of_seed.folder / "logs" / "cost.txt"
            run_command(command, environment=environment, log=log, while_running=lambda: None)
    rows: list[dict[str, float]] = json.loads(path.read_text(encoding="utf-8"))
    return rows


def _seconds(runs: Sequence[FewDataRuns], tunings: Sequence[Tuning]) -> float:
    return sum(of_seed.seconds(METHODS) for of_seed in runs) + sum(tuning.seconds for tuning in tunings)


if __name__ == "__main__":
    sys.exit(main())
