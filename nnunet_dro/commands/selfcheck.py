"""The command `nnunet-dro selfcheck`."""

from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.commands.shared import option


def selfcheck(
    output: Annotated[Path | None, option("JSON file for the record.", "--output", "-o")] = None,
) -> None:
    """Compute numbers that are known by hand, and record what this installation finds."""
    from nnunet_dro.files.output_folder import check_new_file
    from nnunet_dro.selfcheck import selfcheck as check

    if output is not None:
        check_new_file(output, overwrite=True)
    record = check()
    typer.echo("\n".join(record.lines()))
    if output is not None:
        record.write(output)
        typer.echo(output)
    if not record.agrees:
        raise typer.Exit(1)
