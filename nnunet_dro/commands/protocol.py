"""The commands `nnunet-dro protocol write` and `nnunet-dro protocol show`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.commands.shared import RequireFile, argument, option, takes
from nnunet_dro.commands.usage import Command
from nnunet_dro.evaluation.options import (
    REQUIREMENTS,
    SECTIONS,
    Flag,
    LockedComparison,
    LockedEvaluation,
    declared,
)

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


@commands.command(cls=Command)
@takes(_WriteOptions)
def write(options: _WriteOptions) -> None:
    """Lock the options of evaluate and compare in a file."""
    from nnunet_dro.commands.protocol_file import Protocol, sorted_requirements, write_protocol
    from nnunet_dro.evaluation.judging.requirements import requirement_lines

    from_file = (
        [text for _, text in requirement_lines(options.require_file)]
        if options.require_file
        else []
    )
    of_strata, of_comparison = sorted_requirements([*options.requirements, *from_file])
    of_evaluation, of_compare = (
        {
            name: one.flag.value(getattr(options, one.field))
            for name, one in declared(section).items()
        }
        for section in SECTIONS.values()
    )
    written = Protocol(
        {**of_evaluation, "require": of_strata}, {**of_compare, "require": of_comparison}
    )
    write_protocol(written, options.protocol, force=options.force)
    typer.echo(f"SHA-256 {written.sha256}")
    typer.echo(options.protocol)


@commands.command(cls=Command)
def show(protocol: _ProtocolPath) -> None:
    """Check that a protocol is as it was written, and show what it locks."""
    from nnunet_dro.commands.protocol_file import read_protocol

    read = read_protocol(protocol)
    typer.echo(f"{protocol} is as it was written.\nSHA-256 {read.sha256}")
    for command, locked in read.sections.items():
        typer.echo(f"\nnnunet-dro {command}")
        for name, value in locked.items():
            values = value if isinstance(value, list) else [value]
            shown = [
                ("yes" if item else "no") if isinstance(item, bool) else str(item)
                for item in values
            ]
            if value is not None and shown:
                typer.echo(f"  {name.replace('_', '-'):<20}  " + f"\n{'':24}".join(shown))
