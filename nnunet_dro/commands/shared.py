"""What several commands share: how options are declared, those that mean the same everywhere, and what is printed."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from nnunet_dro.nnunet.command import Device

_REQUIREMENT_FAILED = 3

_Options = TypeVar("_Options")


def option(text: str, *flags: str, **settings: Any) -> Any:
    """An option with its help. Typer must not check paths: it would report an unreadable one in a box of five lines."""
    return typer.Option(*flags, help=text, readable=False, **settings)


def argument(text: str, **settings: Any) -> Any:
    """An argument with its help; see `option`."""
    return typer.Argument(help=text, readable=False, **settings)


Output = Annotated[Path, option("Folder for the results; must be new or empty.", "--output", "-o")]
Overwrite = Annotated[bool, option("Replace what an earlier run wrote to the output folder.", "--overwrite")]
Bootstrap = Annotated[
    int,
    option(
        "Number of random draws for the 95 % intervals of means; 0 for no intervals.", min=0, rich_help_panel="Running"
    ),
]
Seed = Annotated[int, option("Random seed of the intervals.", min=0, rich_help_panel="Running")]
CaseTable = Annotated[Path | None, option("Case table (CSV, TSV, XLSX, JSON); default: cases.csv of the dataset.")]

# Of the commands that train.
Dataset = Annotated[str, argument("Name or number of a preprocessed dataset.")]
Configuration = Annotated[str, argument("Configuration to train, such as 3d_fullres.")]
Plans = Annotated[str, option("Name of the plans.", "--plans", "-p")]
TrainingDevice = Annotated[Device | None, option("Device to train on; default: cuda if there is one, else cpu.")]

RequireFile = Annotated[
    Path | None, option("File of quality requirements, one per line.", rich_help_panel="Requirements")
]


def takes(options: type[_Options]) -> Callable[[Callable[[_Options], None]], Callable[..., None]]:
    """Make a command of a function of a dataclass: the command takes its fields, those without a default first."""
    hints = get_type_hints(options, include_extras=True)
    parameters = []
    for field in fields(options):  # type: ignore[arg-type]
        default = field.default if field.default_factory is MISSING else field.default_factory()
        default = inspect.Parameter.empty if default is MISSING else default
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(field.name, kind, default=default, annotation=hints[field.name]))
    parameters.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)

    def decorate(function: Callable[[_Options], None]) -> Callable[..., None]:
        def command(**values: Any) -> None:
            function(options(**values))

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate


def names_in(text: str) -> list[str]:
    """The names in a text with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


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
