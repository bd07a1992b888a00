"""The command `nnunet-dro trainers`."""

from typing import Annotated

import typer

from nnunet_dro.commands.completion import complete_trainer
from nnunet_dro.commands.shared import option


def trainers(
    *,
    path: Annotated[
        bool, option("Print the folder for nnU-Net's variable nnUNet_extTrainer.", "--path")
    ] = False,
    check: Annotated[
        str | None,
        option(
            "Explain a trainer's name in words.", metavar="NAME", autocompletion=complete_trainer
        ),
    ] = None,
) -> None:
    """List the trainers and their options, and say whether nnU-Net finds them."""
    from nnunet_dro.trainers.installation import EXPORT, FOLDER, discover

    if path:
        typer.echo(FOLDER)
        return
    if check is not None:
        from nnunet_dro.trainers.overview import explain

        typer.echo("\n".join(explain(check)))
        return

    from rich.console import Console

    discovery = discover()
    console = Console(soft_wrap=True, highlight=False)
    if discovery.where is None:
        console.print(f"[bold red]nnU-Net does not find the trainers.[/] {discovery.cure}")
        raise typer.Exit(1)

    from nnunet_dro.trainers.overview import trainer_overview

    console.print(trainer_overview())
    console.print(f"\n[green]nnU-Net finds them[/] through {discovery.where}")
    if not discovery.where.is_relative_to(FOLDER):
        console.print(
            f"Without a file in its folder it finds them from nnunetv2 2.8 on, after: {EXPORT}"
        )
