"""The command `nnunet-dro strata`. Heavy modules are imported inside it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nnunet_dro.commands.shared import argument, option, show_with_page, takes
from nnunet_dro.progress_bar import progress_bar


@dataclass(frozen=True, kw_only=True)
class _Options:
    images: Annotated[
        Path, argument("Folder of images (CASE_0000.nii.gz ...), and of their JSON files.")
    ]
    labels: Annotated[Path, argument("Folder of reference label maps.")]
    output: Annotated[Path, option("Case table to write (CSV).", "--output", "-o")]
    cases: Annotated[
        Path | None, option("Case table whose columns are kept, before the new ones.")
    ] = None
    dicom: Annotated[
        Path | None, option("Folder with a DICOM folder for every case, named like it.")
    ] = None
    jobs: Annotated[
        int | None, option("Number of cases to read at a time; default: one per processor.", min=1)
    ] = None
    workers: Annotated[
        str | None, option("Dask scheduler for reading the cases, such as tcp://scheduler:8786.")
    ] = None
    overwrite: Annotated[bool, option("Replace the file if it exists.", "--overwrite")] = False


@takes(_Options)
def strata(options: _Options) -> None:
    """Write a case table with what images and references tell.

    That is size, contrast, noise, scanner, age and more.
    """
    from joblib import cpu_count

    from nnunet_dro.evaluation.report.command_tables import columns_table
    from nnunet_dro.evaluation.stratifying.strata_table import strata_table
    from nnunet_dro.files.output_folder import check_new_file, replacing

    if options.output.suffix.lower() != ".csv":
        raise ValueError(
            f"`output` must end in .csv, got {str(options.output)!r}. Name another file."
        )
    check_new_file(options.output, overwrite=options.overwrite)

    with progress_bar("Reading images") as progress:
        table = strata_table(
            options.images,
            options.labels,
            dicom=options.dicom,
            cases=options.cases,
            workers=options.workers,
            jobs=options.jobs or cpu_count(),
            progress=progress,
        )
    with replacing(options.output) as path:
        table.to_csv(path, index=False)
    show_with_page(columns_table(table), options.output)
