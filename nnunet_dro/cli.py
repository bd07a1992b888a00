"""The command `nnunet-dro`: parse, call one function, print. Everything heavy is imported inside the commands."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro import __version__

app = typer.Typer(
    name="nnunet-dro",
    help="nnU-Net v2, trained and evaluated for its hardest patients.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"nnunet-dro {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def trainers(
    path: Annotated[
        bool, typer.Option("--path", help="Print only the folder for nnU-Net's variable nnUNet_extTrainer.")
    ] = False,
) -> None:
    """List the trainers and their options, and say whether nnU-Net finds them."""
    from nnunet_dro.trainers.found import FOLDER, discover

    if path:
        typer.echo(FOLDER)
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


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything the demo makes; a second run resumes in it.")] = Path(
        "nnunet-dro-demo"
    ),
    data: Annotated[
        Path | None, typer.Option(help="Raw nnU-Net dataset with a cases.csv; default: slices of an MRI template.")
    ] = None,
    by: Annotated[str, typer.Option(help="Column of cases.csv to report by.")] = "centre",
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    beta: Annotated[float, typer.Option(help="Robustness of the second method.")] = 3.0,
    importance_sampling: Annotated[bool, typer.Option(help="Importance weights in the second method.")] = False,
    epochs: Annotated[int, typer.Option(help="Length of both trainings.")] = 10,
    iterations: Annotated[int, typer.Option(help="Training iterations per epoch, of both.")] = 140,
    seed: Annotated[int, typer.Option(help="Of the made dataset, and of the choice of held-out cases.")] = 0,
) -> None:
    """Train plain nnU-Net and nnUNetTrainerDRO on small real images, and compare them per centre."""
    from nnunet_dro.demo import DemoError, run_demo
    from nnunet_dro.trainers.options import DROOptions

    options = DROOptions(beta=beta, importance_sampling=importance_sampling, epochs=epochs, iterations=iterations)
    try:
        run_demo(out, data=data, by=by, device=device, options=options, seed=seed)
    except DemoError as error:
        typer.echo(f"nnunet-dro: {error}", err=True)
        raise typer.Exit(1) from error


def main() -> None:
    """Entry point: input that cannot be used is one line on stderr and exit code 2."""
    try:
        app()
    except (ValueError, FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError) as error:
        typer.echo(f"nnunet-dro: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
