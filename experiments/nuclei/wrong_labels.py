"""Wrong labels among nuclei: what do they cost each way of training, and what happens to rare images beside them?

    python -m experiments.nuclei.wrong_labels --data Dataset022_DSBNuclei [--seeds 0 1] [--add] [--quick] [--out F]

A training takes about two minutes of a processor core, with learnt weights five; a seed has six trainings and a
finetuning, about 16 minutes. Finished runs are kept in the cache, and several commands, each with seeds of its own, may
fill the same cache. The page has the seeds of the command.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from experiments.curves import differences, draw_differences, results_table
from experiments.datasets.nuclei import read_table
from experiments.nuclei.__main__ import minutes, nuclei_parser, plan
from experiments.nuclei.wrong_labels_data import NoisyImages, noisy_images
from experiments.nuclei.wrong_labels_methods import L2RW, ROLES, TRAININGS, planned_runs
from experiments.nuclei.wrong_labels_page import page_text
from experiments.nuclei.wrong_labels_results import all_cases, all_scores, at_the_end
from experiments.nuclei.wrong_labels_training import train_noisy
from experiments.record import (
    OfSeed,
    add_more_seeds,
    added_seeds,
    cached_runs,
    module_command,
    result_folder,
    with_seeds_before,
    write_result,
    write_table,
)
from experiments.spoilt_labels.figure import draw_cases
from experiments.spoilt_labels.separation import separation_table
from nnunet_dro.files.atomic import replacing

ITERATIONS = 2000
NAME = "nuclei-wrong-labels"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = nuclei_parser("nuclei.wrong_labels", str(__doc__).splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=tuple(TRAININGS), default=list(TRAININGS), help="Trainings.")
    add_more_seeds(parser)
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    seeds, iterations = plan(arguments, ITERATIONS)
    try:
        table = read_table(arguments.data)
    except FileNotFoundError as error:
        parser.exit(2, f"{error}\n")

    def read(seed: int) -> NoisyImages:
        return noisy_images(arguments.data, table, seed, quick=arguments.quick)

    images_of, runs = OfSeed(read), planned_runs(seeds, iterations, arguments.methods)

    def make(name: str, progress: Callable[[float], None]) -> dict[str, object]:
        return asdict(train_noisy(runs[name], images_of(runs[name].seed), progress=progress))

    def minutes_of(name: str) -> float:
        # A weight that is learnt takes a second step.
        return minutes(iterations) * (2.5 if runs[name].weights == TRAININGS[L2RW].weights else 1)

    keys = {name: asdict(run) for name, run in runs.items()}
    made = cached_runs(arguments.cache / "wrong-labels", keys, make, minutes=minutes_of, jobs=arguments.jobs)
    folder = result_folder(arguments.out, quick=arguments.quick)
    tables = {"all": all_scores(runs, made), "cases": all_cases(runs, made)}
    try:
        paths = {part: folder / f"{NAME}-{part}.csv" for part in tables}
        tables = {part: with_seeds_before(tables[part], paths[part], add=arguments.add) for part in tables}
    except ValueError as error:
        parser.exit(2, f"{error}\n")
    # The page and the pictures show what is in the files, rounded once.
    scores, cases = (_written(paths[part], table) for part, table in tables.items())
    separation = _written(folder / f"{NAME}-separation.csv", separation_table(cases))
    with replacing(folder / f"{NAME}-cases.png") as partial:
        draw_cases(cases).savefig(partial, dpi=150)
    last, all_seeds = at_the_end(scores), sorted(scores["seed"].unique().tolist())
    page = write_result(
        folder,
        NAME,
        title="Wrong labels among nuclei",
        text=page_text(scores, separation, seeds=all_seeds),
        table=page_table(scores),
        figure=draw_differences(differences(last, ROLES), last, ROLES),
        command=module_command("experiments.nuclei.wrong_labels", argv, seeds=all_seeds),
        seeds=all_seeds,
        added=added_seeds(seeds, scores),
        quick=arguments.quick,
        seconds=sum(content["seconds"] for content in made.values()),
    )
    sys.stdout.write(f"{page}\n")


def _written(path: Path, table: pd.DataFrame) -> pd.DataFrame:
    write_table(path, table, float_format="%.4f")
    return pd.read_csv(path)


def page_table(scores: pd.DataFrame) -> pd.DataFrame:
    """The table of the page.

    Args:
        scores: From `all_scores`.
    """
    return results_table(differences(scores, ROLES), ROLES)


if __name__ == "__main__":
    main()
