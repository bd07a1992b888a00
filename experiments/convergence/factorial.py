"""Phantoms with a rare pathology: the settings of Fidon et al. 2022, every one with every other, in nnU-Net itself.

    python -m experiments.convergence.factorial --work FOLDER [--seeds 0 1] [--jobs 2] [--quick] [--out FOLDER]

The optimiser (SGD, or nnU-Net's with Nesterov momentum), beta, importance weights, and the momentum of the stale
losses. A training takes under two minutes of a processor core; a seed has 28. Finished runs are kept in the work
folder: an interrupted experiment continues where it stopped.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from experiments.convergence.runs import Run, make_run
from experiments.convergence.studies import phantoms
from experiments.convergence.training import EPOCH
from experiments.factorial.effects import Strata, statistics_of
from experiments.factorial.page import Page
from experiments.factorial.settings import Setting, settings
from experiments.nnunet_runs.command_line import QUICK_SEEDS, study_parser
from experiments.nnunet_runs.study import MINUTES_AROUND
from experiments.record import cached_runs, module_command, result_folder

SEEDS = tuple(range(4))
ITERATIONS = 1000
_PHANTOMS = phantoms(quick=False)
_N_TRAIN = sum(_PHANTOMS.n_train.values())
PAGE = Page(
    "phantoms-factorial",
    "Beta, weights, momentum and optimiser: phantoms",
    "convergence/factorial",
    Strata(("rare",), ("control", "common"), as_rare="rare cerebellum", as_common="others", article="the"),
    label="cerebellum",
    values={
        "uniform": _PHANTOMS.n_train["rare"] / _N_TRAIN,
        "visits": lambda iterations: round(iterations * _PHANTOMS.study.batch_size / _N_TRAIN),
    },
)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = study_parser("convergence.factorial", str(__doc__).splitlines()[0], seeds=SEEDS)
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    asked = phantoms(quick=arguments.quick)
    seeds = arguments.seeds or (QUICK_SEEDS if arguments.quick else SEEDS)
    iterations = EPOCH if arguments.quick else ITERATIONS
    work = (arguments.work / ("quick-factorial" if arguments.quick else "factorial")).absolute()
    runs = {
        f"{setting.name}-seed{seed}": (setting, Run(setting.trainer, seed, iterations))
        for seed in seeds
        for setting in settings()
    }

    def make(name: str, progress: Callable[[float], None]) -> dict[str, object]:
        return make_run(work, asked.study, name, runs[name][1], at=[iterations], progress=progress)

    keys = {name: asdict(run) for name, (_, run) in runs.items()}
    minutes = MINUTES_AROUND + iterations * asked.seconds / 60
    made = cached_runs(work / "finished", keys, make, minutes=lambda _: minutes, jobs=arguments.jobs)
    page = PAGE.write(
        result_folder(arguments.out, quick=arguments.quick),
        pd.concat([_statistics(*runs[name], content) for name, content in made.items()], ignore_index=True),
        iterations=iterations,
        command=module_command("experiments.convergence.factorial", argv),
        seeds=seeds,
        quick=arguments.quick,
        seconds=sum(content["seconds"] for content in made.values()),
    )
    sys.stdout.write(f"{page}\n")


def _statistics(setting: Setting, run: Run, content: Mapping[str, Any]) -> pd.DataFrame:
    """Statistics of the Dice at the end, in points, and the share of the draws: a row per pathology and label."""
    dice = pd.DataFrame(content["dice"], columns=["iteration", "stratum", "label", "case", "dice"])
    share = pd.DataFrame(content["share"], columns=["iteration", "stratum", "share"]).set_index("stratum")["share"]
    table = statistics_of(setting, run.seed, dice, ["stratum", "label"])
    return table.assign(share=100 * table["stratum"].map(share))


if __name__ == "__main__":
    main()
