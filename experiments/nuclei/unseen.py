"""Eight images of one modality: do label smoothing, GI-LS or an ascent in styles help on domains in no training?

    python -m experiments.nuclei.unseen --data Dataset022_DSBNuclei [--seeds 0 1] [--quick] [--out F] [--cache F]

A training takes one to three minutes of a processor core, and the nine trainings of a seed about 17 minutes in all.
Finished runs are kept in the cache: an interrupted experiment continues where it stopped, and several of them, each
with seeds of its own, may fill the same cache. The page has the runs that are finished.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from experiments.curves import ScoredRun, scores_of
from experiments.datasets.nuclei import Image
from experiments.nuclei.__main__ import minutes, nuclei_parser, plan
from experiments.nuclei.methods import METHODS as TRAINERS
from experiments.nuclei.unseen_data import N_TEST, read_domains, unseen_images
from experiments.nuclei.unseen_page import METHODS, PLAIN, draw, page_table, page_text
from experiments.nuclei.unseen_training import UnseenRun, train
from experiments.record import OfSeed, cached_runs, module_command, result_folder, write_result, write_table

ITERATIONS = 700


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = nuclei_parser("nuclei.unseen", str(__doc__).splitlines()[0])
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    seeds, iterations = plan(arguments, ITERATIONS)
    try:
        table = read_domains(arguments.data)
    except (FileNotFoundError, ValueError) as error:
        parser.exit(2, f"{error}\n")

    def read(seed: int) -> tuple[list[Image], list[Image]]:
        n_test = 2 if arguments.quick else N_TEST
        return unseen_images(arguments.data, table, rng=np.random.default_rng([seed, 0]), n_test=n_test)

    images_of = OfSeed(read)
    runs = {
        f"{name}-seed{seed}": UnseenRun(TRAINERS[PLAIN], seed, method.length * iterations, method)
        for seed in seeds
        for name, method in METHODS.items()
    }

    def make(name: str, progress: Callable[[float], None]) -> dict[str, object]:
        return asdict(train(runs[name], *images_of(runs[name].seed), progress=progress))

    def minutes_of(name: str) -> float:
        # Images that are generated take steps of their own.
        return minutes(runs[name].iterations) * (3 if runs[name].method.generated else 1)

    keys = {name: asdict(run) for name, run in runs.items()}
    made = cached_runs(arguments.cache / "unseen", keys, make, minutes=minutes_of, jobs=arguments.jobs)
    scores = scores_of(ScoredRun.of(name, runs[name], content, label="nucleus") for name, content in made.items())
    folder = result_folder(arguments.out, quick=arguments.quick)
    write_table(folder / "nuclei-unseen-all.csv", scores, float_format="%.4f")
    # The page shows what is in the file, rounded once.
    scores = pd.read_csv(folder / "nuclei-unseen-all.csv")
    page = write_result(
        folder,
        "nuclei-unseen",
        title="Few images of nuclei, and domains in no training",
        text=page_text(scores, seeds=seeds),
        table=page_table(scores),
        figure=draw(scores),
        command=module_command("experiments.nuclei.unseen", argv),
        seeds=seeds,
        quick=arguments.quick,
        seconds=sum(content["seconds"] for content in made.values()),
    )
    sys.stdout.write(f"{page}\n")


if __name__ == "__main__":
    main()
