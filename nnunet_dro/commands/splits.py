"""The command `nnunet-dro splits`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.commands.shared import CaseTable, takes


@dataclass(frozen=True, kw_only=True)
class SplitsOptions:
    """What `splits` takes."""

    dataset: Annotated[str, typer.Argument(metavar="RAW_DATASET", help="Folder, name or number of a raw dataset.")]
    cases: CaseTable = None
    stratify: Annotated[str | None, typer.Option(help="Column whose strata are spread evenly over the folds.")] = None
    group: Annotated[str | None, typer.Option(help="Column that names the patient; no patient is in two folds.")] = None
    leave_out: Annotated[
        str | None, typer.Option(help="Column that names the centre; every centre becomes a fold.")
    ] = None
    folds: Annotated[int, typer.Option(help="Number of folds; ignored with --leave-out.")] = 5
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; default: splits_final.json for nnU-Net.", readable=False),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False


@takes(SplitsOptions)
def splits(options: SplitsOptions) -> None:
    """Write nnU-Net's splits_final.json: stratified, patient-safe or leave-one-centre-out."""
    from rich.console import Console

    from nnunet_dro.evaluation.report import splits_table
    from nnunet_dro.evaluation.stratifying.splits import split_dataset

    made = split_dataset(
        options.dataset,
        options.cases,
        stratify=options.stratify,
        group=options.group,
        leave_out=options.leave_out,
        folds=options.folds,
        output=options.output,
        force=options.force,
    )
    Console(highlight=False).print(splits_table(made.table, made.notes))
    typer.echo(made.path)
