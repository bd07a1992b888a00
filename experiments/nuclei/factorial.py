"""Rare modalities of cell nuclei: the settings of Fidon et al. 2022, every one with every other.

    python -m experiments.nuclei.factorial --data Dataset022_DSBNuclei [--seeds 0 1] [--quick] [--out F] [--cache F]

The optimiser (SGD, or nnU-Net's with Nesterov momentum), beta, importance weights, and the momentum of the stale
losses. A training takes a minute and a half of a processor core; a seed has 28. Finished runs are kept in the cache.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from experiments.factorial.effects import Strata, statistics_of
from experiments.factorial.page import Page
from experiments.factorial.settings import SGD, Setting, settings
from experiments.nuclei.__main__ import divided_images, minutes, nuclei_parser, plan
from experiments.nuclei.methods import ROLES
from experiments.nuclei.training import OptimisedRun, Run, train
from experiments.record import cached_runs, module_command, result_folder

ITERATIONS = 1000
PAGE = Page(
    "nuclei-factorial",
    "Beta, weights, momentum and optimiser: nuclei",
    "nuclei/factorial",
    Strata(ROLES.rare, ROLES.common, as_rare="rare modalities", as_common=ROLES.common[0]),
)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = nuclei_parser("nuclei.factorial", str(__doc__).splitlines()[0])
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    seeds, iterations = plan(arguments, ITERATIONS)
    images_of = divided_images(arguments.data, parser, quick=arguments.quick)
    runs = {
        f"{setting.name}-seed{seed}": (setting, run_of(setting, seed, iterations))
        for seed in seeds
        for setting in settings()
    }

    def make(name: str, progress: Callable[[float], None]) -> dict[str, object]:
        run = runs[name][1]
        return asdict(train(run, *images_of(run.seed), progress=progress))

    keys = {name: asdict(run) for name, (_, run) in runs.items()}
    made = cached_runs(
        arguments.cache / "factorial", keys, make, minutes=lambda _: minutes(iterations), jobs=arguments.jobs
    )
    page = PAGE.write(
        result_folder(arguments.out, quick=arguments.quick),
        pd.concat([_statistics(*runs[name], content) for name, content in made.items()], ignore_index=True),
        iterations=iterations,
        command=module_command("experiments.nuclei.factorial", argv),
        seeds=seeds,
        quick=arguments.quick,
        seconds=sum(content["seconds"] for content in made.values()),
    )
    sys.stdout.write(f"{page}\n")


def run_of(setting: Setting, seed: int, iterations: int) -> Run:
    """A training with a setting."""
    if setting.optimiser == SGD:
        return OptimisedRun(setting.sampling, seed, iterations, setting.rate, momentum=0.0)
    return Run(setting.sampling, seed, iterations)


def _statistics(setting: Setting, run: Run, content: Mapping[str, Any]) -> pd.DataFrame:
    """Statistics of the Dice at the end, in points: a row per modality."""
    dice = pd.DataFrame(content["dice"], columns=["iteration", "stratum", "case", "dice"])
    at_the_end = dice[dice["iteration"] == run.iterations]
    return statistics_of(setting, run.seed, at_the_end, ["stratum"]).assign(clipped=100 * content["clipped_share"])


if __name__ == "__main__":
    main()
