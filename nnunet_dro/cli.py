"""The command `nnunet-dro`: parse, call one function, print.

Heavy modules are imported inside the commands.
"""

import gc
import os
import sys
from typing import Annotated

import typer

from nnunet_dro import __version__
from nnunet_dro.commands.compare import compare
from nnunet_dro.commands.demo import demo
from nnunet_dro.commands.doctor import doctor
from nnunet_dro.commands.evaluate import evaluate
from nnunet_dro.commands.explore import explore
from nnunet_dro.commands.finetune import finetune
from nnunet_dro.commands.plan import plan
from nnunet_dro.commands.protocol import commands as protocol
from nnunet_dro.commands.rank import rank
from nnunet_dro.commands.report import report
from nnunet_dro.commands.selfcheck import selfcheck
from nnunet_dro.commands.share import share
from nnunet_dro.commands.shared import LockedCommand
from nnunet_dro.commands.splits import splits
from nnunet_dro.commands.strata import strata
from nnunet_dro.commands.suspects import suspects
from nnunet_dro.commands.trainers import trainers
from nnunet_dro.commands.tune import tune
from nnunet_dro.commands.usage import INTERRUPTED, START, Commands, CommandWithPanels

#: After so many new objects garbage is looked for among them, and after so many such collections
#: among older ones, and the oldest.
_COLLECTIONS = (50_000, 20, 20)

#: The commands in the groups of the help, each in the order in which one needs them.
_GROUPS = {
    "Train": (demo, trainers, splits, doctor, tune, finetune, suspects),
    "Evaluate": (strata, evaluate, report, compare, rank, explore),
    "Claims": (plan, protocol, selfcheck),
    "Share": (share,),
}

app = typer.Typer(
    name="nnunet-dro",
    cls=Commands,
    help="nnU-Net v2, trained and evaluated for its hardest patients.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its tables cut long flags on a narrow terminal
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"nnunet-dro {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _main(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(START)


for _group, _commands in _GROUPS.items():
    for _command in _commands:
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name="protocol", rich_help_panel=_group)
        else:
            _kind = LockedCommand if _command in (evaluate, compare) else CommandWithPanels
            app.command(cls=_kind, rich_help_panel=_group)(_command)


def main() -> None:
    """Entry point."""
    # Tables and pages are millions of small objects, none of them in circles: to look for circles
    # as often as is usual takes a tenth of the time of large comparisons.
    gc.set_threshold(*_COLLECTIONS)
    try:
        app()
    except SystemExit as end:
        if end.code != INTERRUPTED:
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # the interpreter's own end aborts where a thread still reads


if __name__ == "__main__":
    main()
