"""What several commands share: how options are declared, and how results are shown.

With --protocol, a command takes its options from a locked protocol, and refuses others.
"""

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_origin, get_type_hints

import typer

from nnunet_dro.bad_input import InputError
from nnunet_dro.commands.completion import complete_column
from nnunet_dro.commands.usage import LOCKED, CommandWithPanels
from nnunet_dro.evaluation.comparing.options import SECTIONS
from nnunet_dro.evaluation.inputs.flags import REQUIREMENTS, Declared, declared
from nnunet_dro.naming import plain
from nnunet_dro.nnunet.command import Device

if TYPE_CHECKING:
    from nnunet_dro.evaluation.judging.subjects import Subject

#: The exit code of each verdict but ``met``; that of the first one that occurs.
_EXIT_CODES = {"not met": 3, "cannot tell": 4}

#: What the line of each says.
_UNMET = {"not met": "requirement not met", "cannot tell": "cannot tell if a requirement is met"}

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

# What the commands that train share.
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

    The command takes the fields of the dataclass, those without a default first. They are annotated
    with arguments and options of typer, or with a `Flag`.
    """
    flags = declared(options)
    parameters = _parameters(options, flags)

    def decorate(function: Callable[[_Options], None]) -> Callable[..., None]:
        def command(**values: Any) -> None:
            for name, entry in flags.items():
                values[entry.field] = entry.flag.value(values.pop(name))
            function(options(**values))

        command.__name__ = function.__name__
        command.__doc__ = function.__doc__
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate


def _parameters(options: type, flags: Mapping[str, Declared]) -> list[inspect.Parameter]:
    """The parameters of a command, from which typer makes its arguments and options."""
    hints = get_type_hints(options, include_extras=True)
    names = {entry.field: name for name, entry in flags.items()}

    required = []
    optional = []
    for field in fields(options):
        name = names.get(field.name, field.name)
        parameter = inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
        )
        if field.default is not MISSING:
            parameter = parameter.replace(default=field.default)
        if name in flags:
            parameter = _with_flag(parameter, flags[name])

        if parameter.default is inspect.Parameter.empty:
            required.append(parameter)
        else:
            optional.append(parameter)
    return required + optional


def _with_flag(parameter: inspect.Parameter, entry: Declared) -> inspect.Parameter:
    """A parameter with the annotation and the default that typer needs for a `Flag`."""
    flag = entry.flag
    kind = entry.hint
    default = parameter.default
    if flag.has_commas:
        kind = str
        default = ",".join(default)
    elif get_origin(kind) is Sequence:
        kind = list[str]
        default = list(default)

    switch = f"--{parameter.name.replace('_', '-')}"
    if kind is bool and default:
        switch += f"/--no-{parameter.name}"
    switches = [switch]
    if flag.short:
        switches.append(flag.short)

    completion = complete_column if flag.is_column else None
    settings = option(
        flag.help,
        *switches,
        min=flag.least,
        rich_help_panel=flag.panel,
        autocompletion=completion,
    )
    return parameter.replace(annotation=Annotated[kind, settings], default=default)


def requirement_texts(
    texts: Sequence[str], file: Path | None, subject: "Subject | None" = None
) -> list[str]:
    """Requirements of a command: those that were typed, then those of a file.

    Those of a file are read as being about the subject; without any, about whatever each is about.
    """
    from nnunet_dro.evaluation.judging.requirements import read_requirements

    requirements = list(texts)
    if file is not None:
        requirements += [requirement.text for requirement in read_requirements(file, subject)]
    return requirements


def stop_if_unmet(requirements: Sequence[Mapping[str, Any]]) -> None:
    """End with a line for every requirement that is not met, if there are any.

    The exit code is 3 if any is surely not met, and else 4: of none can one tell.
    """
    unmet = [outcome for outcome in requirements if not outcome["passed"]]
    for outcome in unmet:
        verdict = _UNMET[outcome["verdict"]]
        typer.echo(f"nnunet-dro: {verdict}: {plain(outcome['line'])}", err=True)

    verdicts = {outcome["verdict"] for outcome in unmet}
    for verdict, code in _EXIT_CODES.items():
        if verdict in verdicts:
            raise typer.Exit(code)


def show_with_page(table: Any, page: Path) -> None:
    """Print a table, and on the last line where the page is."""
    from rich.console import Console

    try:
        Console(highlight=False).print(table)
        typer.echo(page)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        # The reader has seen enough, which rich turns into SystemExit. A verdict may follow.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


#: What a protocol does not lock and yet refuses: it has requirements itself, and comparisons are by
#: what is evaluated.
REFUSED = ("require_file", "by")

#: Where the context of a command has them until they are checked.
_UNCHECKED = "nnunet_dro.unchecked"

#: Sources of a parameter that a user has set, by their names in click.
_SET_BY_USER = ("COMMANDLINE", "ENVIRONMENT")


def _take_defaults(ctx: typer.Context, path: Path | None) -> Path | None:
    """Make the protocol's options the defaults of those that follow."""
    if path is None or ctx.resilient_parsing:
        return path
    from nnunet_dro.commands.protocol_file import read_protocol

    command = str(ctx.info_name)
    flags = declared(SECTIONS[command])
    locked = read_protocol(path).sections[command]
    ctx.meta[_UNCHECKED] = locked
    defaults = {}
    for name, value in locked.items():
        if value is None:
            continue
        has_commas = name in flags and flags[name].flag.has_commas
        defaults[name] = ",".join(value) if has_commas else value
    ctx.default_map = defaults
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


class LockedCommand(CommandWithPanels):
    """A command whose options are those of the protocol, if it is given one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, then refuse options that differ from the protocol."""
        rest = super().parse_args(ctx, args)
        if _UNCHECKED in ctx.meta:
            _check_locked(ctx, ctx.meta[_UNCHECKED])
            ctx.meta[LOCKED] = ctx.meta[_UNCHECKED]
        return rest


def _check_locked(ctx: typer.Context, locked: Mapping[str, Any]) -> None:
    """Refuse options that differ from those of a protocol."""
    flags = declared(SECTIONS[str(ctx.info_name)])

    for name, value in ctx.params.items():
        source = ctx.get_parameter_source(name)
        if source is None or source.name not in _SET_BY_USER:
            continue
        if name in flags:
            value = flags[name].flag.value(value)
        elif name not in REFUSED:
            continue

        locked_value = locked.get(name)
        if value != locked_value:
            must = "be left out" if locked_value is None else f"be {_shown(locked_value)}"
            raise InputError(
                name,
                must=f"{must}, as locked in {str(ctx.params['protocol'])!r}",
                got=_shown(value),
                cure="Leave the option out, or write another protocol.",
            )


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(repr(item) for item in value) or "left out"
    if isinstance(value, Path):
        return repr(str(value))
    return repr(value)
