"""Speed or solution: does a gain of robust training remain when plain training has converged?

    python -m experiments.convergence NAME --work FOLDER [--data FOLDER] [--seeds 0 1 2] [--methods plain DRO]
        [--add] [--jobs 2] [--quick] [--out FOLDER]

NAME is phantoms, long (phantoms for twice as long) or slices (of phantoms), which are made, or hippocampus or nuclei,
whose raw dataset is given with ``--data``. nnU-Net is trained much longer than in the other studies, and tested on the
way. Finished runs are kept in the work folder: an interrupted experiment continues where it stopped, and a second one
may make other seeds at the same time.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.convergence.page import page_text
from experiments.convergence.runs import Run, make_run
from experiments.convergence.studies import METHODS, NAMES, PLAIN, Question, question
from experiments.convergence.training import moments
from experiments.curves import ScoredRun, decision, differences, draw_curves, results_table, scores_of
from experiments.nnunet_runs.study import MINUTES_AROUND
from experiments.record import (
    add_jobs,
    add_more_seeds,
    added_seeds,
    cached_runs,
    experiment_parser,
    module_command,
    result_folder,
    with_seeds_before,
    write_result,
    write_table,
)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = experiment_parser("convergence", str(__doc__).splitlines()[0])
    parser.add_argument("name", choices=NAMES, help="What to train on.")
    parser.add_argument("--work", type=Path, required=True, help="Folder for the data and the finished runs.")
    parser.add_argument("--data", type=Path, help="The raw dataset of hippocampus or nuclei in nnU-Net's format.")
    parser.add_argument("--seeds", type=int, nargs="+", help="Seeds to run (default: 0 to 4; with --quick 0).")
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=tuple(METHODS),
        default=["DRO", "IW"],
        help="Methods beside plain training; with --add, all that are trained.",
    )
    add_more_seeds(parser)
    add_jobs(parser)
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    seeds = arguments.seeds or ([0] if arguments.quick else list(range(5)))
    try:
        asked = question(arguments.name, arguments.data, quick=arguments.quick)
    except (FileNotFoundError, ValueError) as error:
        parser.exit(2, f"{error}\n")
    study = asked.study
    work = (arguments.work / (f"quick-{arguments.name}" if arguments.quick else arguments.name)).absolute()
    first = [] if arguments.add else [PLAIN]
    trainers = {method: METHODS[method].format(by=study.by) for method in dict.fromkeys([*first, *arguments.methods])}
    runs = {
        f"{method}-seed{seed}": Run(trainer, seed, asked.iterations)
        for seed in seeds
        for method, trainer in trainers.items()
    }
    keys = {name: asdict(run) for name, run in runs.items()}
    minutes = MINUTES_AROUND + asked.iterations * asked.seconds / 60
    at = moments(asked.iterations, asked.settling)

    def make(name: str, progress: Callable[[float], None]) -> dict[str, object]:
        return make_run(work, study, name, runs[name], at=at, progress=progress)

    made = cached_runs(work / "finished", keys, make, minutes=lambda _: minutes, jobs=arguments.jobs)
    scored = [_scored(asked, name, runs[name], content) for name, content in made.items()]
    folder = result_folder(arguments.out, quick=arguments.quick)
    # The page shows what is in the files, rounded once.
    try:
        scores = written_scores(folder / f"{study.name}-all.csv", scored, add=arguments.add)
        regrouped = None
        if asked.regrouped is not None:
            others = [run.regrouped(asked.regrouped[1]) for run in scored]
            regrouped = written_scores(folder / f"{study.name}-regrouped-all.csv", others, add=arguments.add)
    except ValueError as error:
        parser.exit(2, f"{error}\n")
    found = differences(scores, asked.roles)
    rule = decision(scores, asked.roles, wrong_labels=asked.wrong_labels)
    write_table(folder / f"{study.name}-rule.csv", rule, float_format="%.4f")
    regrouped_differences = None if regrouped is None else differences(regrouped, asked.roles)
    all_seeds = sorted(scores["seed"].unique().tolist())
    page = write_result(
        folder,
        study.name,
        title=study.title,
        text=page_text(found, scores, asked, seeds=all_seeds, regrouped=regrouped_differences),
        table=results_table(found[found["label"] == asked.roles.label], asked.roles),
        figure=draw_curves(scores, asked.roles, asked.n_train, logarithmic=True, batch_size=study.batch_size),
        command=module_command("experiments.convergence", argv, seeds=all_seeds),
        seeds=all_seeds,
        added=added_seeds(seeds, scores),
        quick=arguments.quick,
        seconds=sum(content["seconds"] for content in made.values()),
    )
    sys.stdout.write(f"{page}\n")


def written_scores(path: Path, runs: Sequence[ScoredRun], *, add: bool) -> pd.DataFrame:
    """Write the scores of runs, and return them as they are in the file.

    Args:
        path: The file.
        runs: The trainings.
        add: Whether to keep the rows of other seeds that the file has.

    Raises:
        ValueError: If the other seeds cannot be kept; see `with_seeds_before`.
    """
    write_table(path, with_seeds_before(scores_of(runs), path, add=add), float_format="%.4f")
    return pd.read_csv(path)


def _scored(asked: Question, name: str, run: Run, content: dict[str, Any]) -> ScoredRun:
    scored = ScoredRun.of(name, run, content)
    return scored if len(asked.study.labels) == 1 else scored.with_mean_of_labels(str(asked.roles.label))


if __name__ == "__main__":
    main()
