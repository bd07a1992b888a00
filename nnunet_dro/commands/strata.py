"""The command `nnunet-dro strata`. Heavy modules are imported inside it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.commands.shared import takes
from nnunet_dro.progress_bar import progress_bar


@dataclass(frozen=True, kw_only=True)
class StrataOptions:
    """What `strata` takes."""

    images: Annotated[
        Path,
        typer.Argument(help="Folder of images (CASE_0000.nii.gz ...), and of their JSON files.", readable=False),
    ]
    labels: Annotated[Path, typer.Argument(help="Folder of reference label maps.", readable=False)]
    output: Annotated[Path, typer.Option("--output", "-o", help="Case table to write (CSV).", readable=False)]
    cases: Annotated[
        Path | None, typer.Option(help="Case table whose columns are kept, before the new ones.", readable=False)
    ] = None
    dicom: Annotated[
        Path | None,
        typer.Option(help="Folder with a folder of DICOM files for every case, named like the case.", readable=False),
    ] = None
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Number of cases to read at a time; default: one per processor.")
    ] = None
    workers: Annotated[
        str | None, typer.Option(help="Dask scheduler whose workers read the cases, such as tcp://scheduler:8786.")
    ] = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False


@takes(StrataOptions)
def strata(options: StrataOptions) -> None:
    """Write a case table with what images and references tell: size, contrast, noise, scanner, age ..."""
    from joblib import cpu_count
    from rich.console import Console

    from nnunet_dro.evaluation.report.columns import columns_table
    from nnunet_dro.evaluation.stratifying.strata_table import strata_table
    from nnunet_dro.files.atomic import replacing

    output = options.output
    if output.suffix.lower() != ".csv":
        raise ValueError(f"`output` must end in .csv, got {str(output)!r}. Name another file.")
    if output.exists() and not options.overwrite:
        cure = "Name another, or give --overwrite to replace it."
        raise FileExistsError(f"`output` must be a new file, got {str(output)!r}, which exists. {cure}")
    if not output.absolute().parent.is_dir():
        raise FileNotFoundError(f"`output` must be in a folder that exists, got {str(output)!r}. Make the folder.")
    with progress_bar("Reading images") as progress:
        table = strata_table(
            options.images,
            options.labels,
            dicom=options.dicom,
            cases=options.cases,
            jobs=options.jobs or cpu_count(),
            workers=options.workers,
            progress=progress,
        )
    with replacing(output) as path:
        table.to_csv(path, index=False)
    Console(highlight=False).print(columns_table(table))
    typer.echo(output)
