"""What several commands share: options that mean the same everywhere, and what they print."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

_REQUIREMENT_FAILED = 3

# Typer does not check paths: it would report an unreadable one in a box of five lines.
Output = Annotated[
    Path, typer.Option("--output", "-o", help="Folder for the results; must be new or empty.", readable=False)
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier run wrote to the output folder.")]
Bootstrap = Annotated[
    int, typer.Option(min=0, help="Number of random draws for the 95 % intervals of means; 0 for no intervals.")
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed of the intervals.")]
CaseTable = Annotated[
    Path | None,
    typer.Option(help="Case table (CSV, TSV, XLSX, JSON); default: cases.csv of the dataset.", readable=False),
]

RequireFile = Annotated[Path | None, typer.Option(help="File of quality requirements, one per line.", readable=False)]


def stop_if_unmet(requirements: Sequence[Mapping[str, Any]]) -> None:
    """End with exit code 3 and a line for every requirement that is not met, if there are any."""
    unmet = [outcome for outcome in requirements if not outcome["passed"]]
    for outcome in unmet:
        said = "cannot tell if a requirement is met" if outcome["verdict"] == "cannot tell" else "requirement not met"
        typer.echo(f"nnunet-dro: {said}: {outcome['line']}", err=True)
    if unmet:
        raise typer.Exit(_REQUIREMENT_FAILED)


def show(table: Any, page: Path) -> None:
    """Print a table, and on the last line where the page is."""
    from rich.console import Console

    Console(highlight=False).print(table)
    typer.echo(page)
