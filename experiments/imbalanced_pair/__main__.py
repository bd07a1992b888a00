"""4 against 9, imbalanced: weights learnt from ten trusted images, against the usual remedies for a rare class.

    python -m experiments.imbalanced_pair [--quick] [--out FOLDER] [--cache FOLDER]

After section 4.1 of Ren et al. 2018. Finished runs are kept in the cache: an interrupted experiment continues.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from experiments.datasets.mnist import load_digits
from experiments.imbalanced_pair.page import draw_errors, page_text
from experiments.imbalanced_pair.plan import TUNING_SEED, chosen_rate, planned_runs, tuning_runs
from experiments.imbalanced_pair.results import compared, results_table
from experiments.imbalanced_pair.training import Outcome, Run, split_pair, train
from experiments.record import cache_folder, cached_runs, experiment_parser, module_command, result_folder, write_result


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = experiment_parser("imbalanced_pair", str(__doc__).splitlines()[0])
    folder = cache_folder("imbalanced-pair")
    parser.add_argument("--cache", type=Path, default=folder, help="Folder for finished runs (default: %(default)s).")
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    try:
        images, digits = load_digits()
    except ImportError as error:
        parser.exit(2, f"{error}\n")
    # One thread adds up in the same order on every machine.
    torch.set_num_threads(1)

    def results_of(planned: Sequence[Run]) -> list[tuple[Run, Outcome]]:
        runs = {f"{r.method}-{r.ratio}to1-rate{r.learning_rate:g}-seed{r.seed}".replace(" ", "-"): r for r in planned}

        def make(name: str, progress: Callable[[float], None]) -> dict[str, object]:
            return asdict(train(runs[name], split_pair(images, digits, runs[name]), progress=progress))

        made = cached_runs(arguments.cache, {name: asdict(run) for name, run in runs.items()}, make)
        return [(runs[name], Outcome(**content)) for name, content in made.items()]

    tuning = results_of(tuning_runs(quick=arguments.quick))
    results = results_of(planned_runs(chosen_rate(tuning), quick=arguments.quick))
    rows = compared(results)
    page = write_result(
        result_folder(arguments.out, quick=arguments.quick),
        "imbalanced-pair",
        title="4 against 9, imbalanced",
        text=page_text(rows, results[0][0]),
        table=results_table(rows),
        figure=draw_errors(rows),
        command=module_command("experiments.imbalanced_pair", argv),
        seeds=[*sorted(rows["seed"].unique()), TUNING_SEED],
        quick=arguments.quick,
        seconds=sum(outcome.seconds for _, outcome in [*tuning, *results]),
    )
    sys.stdout.write(f"{page}\n")


if __name__ == "__main__":
    main()
