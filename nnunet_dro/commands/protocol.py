"""The commands `nnunet-dro protocol write` and `nnunet-dro protocol show`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import typer

from nnunet_dro import __version__
from nnunet_dro.commands.shared import RequireFile, argument, option, requirement_texts, takes
from nnunet_dro.commands.usage import CommandWithPanels
from nnunet_dro.evaluation.comparing.options import LockedComparison
from nnunet_dro.evaluation.inputs.flags import REQUIREMENTS, Flag, declared
from nnunet_dro.evaluation.inputs.options import LockedEvaluation

commands = typer.Typer(help="Write down, before the results are seen, how they will be judged.")

_ProtocolPath = Annotated[Path, argument("File of the protocol, such as protocol.toml.")]


@dataclass(frozen=True, kw_only=True)
class _WriteOptions(LockedComparison, LockedEvaluation):
    protocol: _ProtocolPath
    requirements: Annotated[
        Sequence[str],
        Flag(
            "Requirement of evaluate or, if it is about a difference, of compare (repeatable).",
            REQUIREMENTS,
            "require",
        ),
    ] = ()
    require_file: RequireFile = None
    force: Annotated[bool, option("Replace an existing file.", "--force")] = False


@commands.command(cls=CommandWithPanels)
@takes(_WriteOptions)
def write(options: _WriteOptions) -> None:
    """Lock the options of evaluate and compare in a file."""
    from nnunet_dro.commands.protocol_file import Protocol, sorted_requirements, write_protocol
    from nnunet_dro.evaluation.scoring.failures import DEFAULT_FAILURE, Failure

    requirements = requirement_texts(options.requirements, options.require_file)
    on_strata, on_differences = sorted_requirements(requirements)

    locked = _values(options, LockedEvaluation)
    if locked["failure"] is None and Failure.of(DEFAULT_FAILURE).metric in locked["metrics"]:
        locked["failure"] = DEFAULT_FAILURE
    protocol = Protocol(
        evaluate={**locked, "require": on_strata},
        compare={**_values(options, LockedComparison), "require": on_differences},
        written=datetime.now(timezone.utc).date().isoformat(),
        version=__version__,
    )
    write_protocol(protocol, options.protocol, force=options.force)
    typer.echo(f"SHA-256 {protocol.sha256}")
    typer.echo(options.protocol)


def _values(options: _WriteOptions, section: type) -> dict[str, Any]:
    """The options of a section, by their names at the command line, as a protocol has them."""
    return {
        name: entry.flag.value(getattr(options, entry.field))
        for name, entry in declared(section).items()
    }


@commands.command(cls=CommandWithPanels)
def show(protocol: _ProtocolPath) -> None:
    """Check that a protocol is as it was written, and show what it locks."""
    from nnunet_dro.commands.protocol_file import read_protocol

    read = read_protocol(protocol)
    typer.echo(f"{protocol} is as it was written.")
    for name, value in (read.head | {"SHA-256": read.sha256}).items():
        typer.echo(f"{name} {value}")
    for command, locked in read.sections.items():
        typer.echo(f"\nnnunet-dro {command}")
        for name, value in locked.items():
            lines = _lines_of(value)
            if lines:
                text = f"\n{'':24}".join(lines)
                typer.echo(f"  {name.replace('_', '-'):<20}  {text}")


def _lines_of(value: Any) -> list[str]:
    """The value of an option as it is shown, a line per item; none if it has no value."""
    if value is None:
        return []
    if isinstance(value, list):
        return [str(item) for item in value]
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    return [str(value)]
