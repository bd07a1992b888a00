"""The command `nnunet-dro selfcheck`."""

from pathlib import Path
from typing import Annotated

import typer


def selfcheck(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="JSON file for the record.", readable=False)
    ] = None,
) -> None:
    """Compute numbers that are known by hand, and record what this installation finds."""
    from nnunet_dro.selfcheck import selfcheck as check

    record = check()
    typer.echo("\n".join(record.lines()))
    if output is not None:
        record.write(output)
        typer.echo(output)
    if not record.agrees:
        raise typer.Exit(1)
