"""The command `nnunet-dro trainers`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from nnunet_dro.commands.completion import complete_trainer
from nnunet_dro.commands.shared import takes


@dataclass(frozen=True, kw_only=True)
class TrainersOptions:
    """What `trainers` takes."""

    path: Annotated[
        bool, typer.Option("--path", help="Print only the folder to set in nnU-Net's variable nnUNet_extTrainer.")
    ] = False
    check: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Explain a trainer's name in words.", autocompletion=complete_trainer),
    ] = None


@takes(TrainersOptions)
def trainers(options: TrainersOptions) -> None:
    """List the trainers and their options, and say whether nnU-Net finds them."""
    from nnunet_dro.trainers.installation import FOLDER, discover

    if options.path:
        typer.echo(FOLDER)
        return
    if options.check is not None:
        from nnunet_dro.trainers.explanation import explain

        typer.echo("\n".join(explain(options.check)))
        return
    from rich.console import Console

    found = discover()
    console = Console(soft_wrap=True, highlight=False)
    if found.where is None:
        console.print(f"[bold red]nnU-Net does not find the trainers.[/] {found.cure}")
        raise typer.Exit(1)
    from nnunet_dro.trainers.overview import trainer_overview

    console.print(trainer_overview())
    console.print(f"\n[green]nnU-Net finds them[/] through {found.where}")
