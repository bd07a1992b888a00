"""What several commands share.

How options are declared, those that mean the same everywhere, and what is printed.

With --protocol, a command takes its options from a locked protocol, and refuses others.
"""

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_origin, get_type_hints

import typer

from nnunet_dro.commands.completion import complete_column
from nnunet_dro.commands.usage import Command
from nnunet_dro.evaluation.options import REQUIREMENTS, SECTIONS, Declared, declared
from nnunet_dro.nnunet.command import Device

_REQUIREMENT_FAILED = 3

_Options = TypeVar("_Options")


def option(text: str, *flags: str, **settings: Any) -> Any:
    """An option with its help.

    Typer must not check paths: it would report an unreadable one in a box of five lines.
    """
    return typer.Option(*flags, help=text, readable=False, **settings)


def argument(text: str, **settings: Any) -> Any:
    """An argument with its help; see `option`."""
    return typer.Argument(help=text, readable=False, **settings)


Output = Annotated[Path, option("Folder for the results; must be new or empty.", "--output", "-o")]
Overwrite = Annotated[
    bool, option("Replace what an earlier run wrote to the output folder.", "--overwrite")
]
CaseTable = Annotated[
    Path | None, option("Case table (CSV, TSV, XLSX, JSON); default: cases.csv of the dataset.")
]

# Of the commands that train.
Dataset = Annotated[str, argument("Name or number of a preprocessed dataset.")]
Configuration = Annotated[str, argument("Configuration to train, such as 3d_fullres.")]
Plans = Annotated[str, option("Name of the plans.", "--plans", "-p")]
TrainingDevice = Annotated[
    Device | None, option("Device to train on; default: cuda if there is one, else cpu.")
]

RequireFile = Annotated[
    Path | None, option("File of requirements, one per line.", rich_help_panel=REQUIREMENTS)
]


def takes(options: type[_Options]) -> Callable[[Callable[[_Options], None]], Callable[..., None]]:
    """Make a command of a function of a dataclass.

    Its fields are annotated with typer's options or a `Flag`.
    """
    hints = get_type_hints(options, include_extras=True)
    flags = declared(options)
    names = {one.field: name for name, one in flags.items()}
    parameters = []
    for field in fields(options):  # type: ignore[arg-type]
        name = names.get(field.name, field.name)
        hint = hints[field.name]
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        if name in flags:
            hint, default = _of_flag(name, flags[name], default)
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=hint))
    parameters.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)

    def decorate(function: Callable[[_Options], None]) -> Callable[..., None]:
        def command(**values: Any) -> None:
            of_flags = {one.field: one.flag.value(values.pop(name)) for name, one in flags.items()}
            function(options(**values, **of_flags))

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate


def _of_flag(name: str, one: Declared, default: Any) -> tuple[Any, Any]:
    """The annotation and the default of a command's parameter."""
    flag = one.flag
    hint = one.hint
    switch = f"--{name.replace('_', '-')}"
    if flag.has_commas:
        hint = str
        default = ",".join(default)
    elif get_origin(hint) is Sequence:
        hint = list[str]
        default = list(default)
    if hint is bool and default:
        switch += f"/--no-{name}"
    completion = complete_column if flag.is_column else None
    switches = [switch, flag.short] if flag.short else [switch]
    given = option(
        flag.help, *switches, min=flag.least, rich_help_panel=flag.panel, autocompletion=completion
    )
    return Annotated[hint, given], default


def stop_if_unmet(requirements: Sequence[Mapping[str, Any]]) -> None:
    """End with exit code 3 and a line for every requirement that is not met, if there are any."""
    unmet = [outcome for outcome in requirements if not outcome["passed"]]
    for outcome in unmet:
        said = (
            "cannot tell if a requirement is met"
            if outcome["verdict"] == "cannot tell"
            else "requirement not met"
        )
        typer.echo(f"nnunet-dro: {said}: {outcome['line']}", err=True)
    if unmet:
        raise typer.Exit(_REQUIREMENT_FAILED)


def show(table: Any, page: Path) -> None:
    """Print a table, and on the last line where the page is."""
    from rich.console import Console

    try:
        Console(highlight=False).print(table)
        typer.echo(page)
        sys.stdout.flush()
    except (
        BrokenPipeError,
        SystemExit,
    ):  # rich's way; the reader has seen enough, and a verdict may follow
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


#: What a protocol does not lock and yet refuses: it has requirements itself, and comparisons are by
#: what is evaluated.
REFUSED = ("require_file", "by")

_GIVEN = ("COMMANDLINE", "ENVIRONMENT")


def _take_defaults(ctx: typer.Context, path: Path | None) -> Path | None:
    """Make the protocol's options the defaults of those that follow."""
    if path is not None and not ctx.resilient_parsing:
        from nnunet_dro.commands.protocol_file import read_protocol

        options = read_protocol(path).sections[str(ctx.info_name)]
        flags = declared(SECTIONS[str(ctx.info_name)])
        ctx.default_map = {
            name: ",".join(value) if name in flags and flags[name].flag.has_commas else value
            for name, value in options.items()
            if value is not None
        }
    return path


ProtocolFile = Annotated[
    Path | None,
    option(
        "Locked protocol, from `protocol write`; other options than it has are refused.",
        "--protocol",
        is_eager=True,
        rich_help_panel=REQUIREMENTS,
        callback=_take_defaults,
    ),
]


class LockedCommand(Command):
    """A command whose options are those of the protocol, if it is given one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, then refuse options that differ from the protocol."""
        rest = super().parse_args(ctx, args)
        path = ctx.params.get("protocol")
        if path is not None and not ctx.resilient_parsing:
            from nnunet_dro.commands.protocol_file import read_protocol

            locked = read_protocol(Path(path)).sections[str(ctx.info_name)]
            flags = {name: one.flag for name, one in declared(SECTIONS[str(ctx.info_name)]).items()}
            for name, value in ctx.params.items():
                source = ctx.get_parameter_source(name)
                if name not in (*flags, *REFUSED) or source is None or source.name not in _GIVEN:
                    continue
                given = flags[name].value(value) if name in flags else value
                if given != locked.get(name):
                    must = (
                        "be left out" if locked.get(name) is None else f"be {_shown(locked[name])}"
                    )
                    cure = "Leave the option out, or write another protocol."
                    raise ValueError(
                        f"`{name}` must {must}, as locked in {str(path)!r}, got {_shown(given)}. {cure}"
                    )
        return rest


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(repr(item) for item in value) or "left out"
    return repr(str(value)) if isinstance(value, Path) else repr(value)
