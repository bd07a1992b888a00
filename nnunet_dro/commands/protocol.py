"""The commands `nnunet-dro protocol write` and `nnunet-dro protocol show`."""

from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.choices import EmptyRule, MissingRule
from nnunet_dro.commands import evaluate_options as options
from nnunet_dro.commands.shared import Bootstrap, RequireFile, Seed
from nnunet_dro.commands.usage import Command

commands = typer.Typer(help="Write down, before the results are seen, how they will be judged.")

_ProtocolPath = Annotated[Path, typer.Argument(help="File of the protocol, such as protocol.toml.", readable=False)]


@commands.command(cls=Command)
def write(
    protocol: _ProtocolPath,
    by: Annotated[list[str] | None, typer.Option(help="Column to report by (repeatable), as for evaluate.")] = None,
    overall: Annotated[
        bool, typer.Option("--overall/--no-overall", help="Report all cases together, too, where --by divides them.")
    ] = True,
    reference_stratum: Annotated[
        str | None, typer.Option(help="Stratum that the worst one is compared with, in place of the best one.")
    ] = None,
    patient: Annotated[str | None, typer.Option(help="Column that names the patient of each case.")] = None,
    metrics: Annotated[str, typer.Option(help="Metrics, the most important one first, as for evaluate.")] = "dice",
    nsd_tolerance_mm: Annotated[float, typer.Option(help="Tolerance of the normalised surface distance, in mm.")] = 1.0,
    empty: Annotated[
        EmptyRule, typer.Option(help="Score of a label that reference, prediction or both lack.")
    ] = EmptyRule.UNDEFINED,
    instances: options.Instances = None,
    match: options.Match = None,
    connectivity: options.Connectivity = None,
    lesions_above_mm3: options.LesionsAbove = None,
    missing: Annotated[
        MissingRule, typer.Option(help="Stop at missing predictions, or score them as failed.")
    ] = MissingRule.ERROR,
    intersect: Annotated[
        bool, typer.Option("--intersect", help="Compare only the cases that all evaluations have.")
    ] = False,
    margin: Annotated[
        float | None, typer.Option(help="How much worse the mean may be in a comparison, as for compare.")
    ] = None,
    bootstrap: Bootstrap = 2000,
    seed: Seed = 0,
    require: Annotated[
        list[str] | None,
        typer.Option(help="Requirement of evaluate or, if it is about a difference, of compare (repeatable)."),
    ] = None,
    require_file: RequireFile = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Lock the options of evaluate and compare in a file."""
    from nnunet_dro.evaluation.protocol import Protocol, sorted_requirements, write_protocol
    from nnunet_dro.evaluation.requirements import requirement_lines

    from_file = [text for _, text in requirement_lines(require_file)] if require_file else []
    of_strata, of_comparison = sorted_requirements([*(require or ()), *from_file])
    draws = {"bootstrap": bootstrap, "seed": seed}
    written = Protocol(
        evaluate={
            "by": by or [],
            "overall": overall,
            "reference_stratum": reference_stratum,
            "patient": patient,
            "metrics": [name.strip() for name in metrics.split(",") if name.strip()],
            "nsd_tolerance_mm": nsd_tolerance_mm,
            "empty": empty.value,
            "instances": instances or [],
            "match": match,
            "connectivity": connectivity,
            "lesions_above_mm3": lesions_above_mm3,
            "missing": missing.value,
            **draws,
            "require": of_strata,
        },
        compare={"intersect": intersect, "margin": margin, **draws, "require": of_comparison},
    )
    write_protocol(written, protocol, force=force)
    typer.echo(f"SHA-256 {written.sha256}")
    typer.echo(protocol)


@commands.command(cls=Command)
def show(protocol: _ProtocolPath) -> None:
    """Check that a protocol is as it was written, and show what it locks."""
    from nnunet_dro.evaluation.protocol import read_protocol

    read = read_protocol(protocol)
    typer.echo(f"{protocol} is as it was written.\nSHA-256 {read.sha256}")
    for command, locked in read.sections.items():
        typer.echo(f"\nnnunet-dro {command}")
        for name, value in locked.items():
            values = value if isinstance(value, list) else [value]
            shown = [("yes" if item else "no") if isinstance(item, bool) else str(item) for item in values]
            if value is not None and shown:
                typer.echo(f"  {name.replace('_', '-'):<20}  " + f"\n{'':24}".join(shown))
