"""The command `nnunet-dro strata`. Heavy modules are imported inside it."""

from pathlib import Path
from typing import Annotated

from nnunet_dro.commands.shared import argument, option, show
from nnunet_dro.progress_bar import progress_bar


def strata(
    *,
    images: Annotated[Path, argument("Folder of images (CASE_0000.nii.gz ...), and of their JSON files.")],
    labels: Annotated[Path, argument("Folder of reference label maps.")],
    output: Annotated[Path, option("Case table to write (CSV).", "--output", "-o")],
    cases: Annotated[Path | None, option("Case table whose columns are kept, before the new ones.")] = None,
    dicom: Annotated[
        Path | None, option("Folder with a folder of DICOM files for every case, named like the case.")
    ] = None,
    jobs: Annotated[int | None, option("Number of cases to read at a time; default: one per processor.", min=1)] = None,
    workers: Annotated[
        str | None, option("Dask scheduler whose workers read the cases, such as tcp://scheduler:8786.")
    ] = None,
    overwrite: Annotated[bool, option("Replace the file if it exists.", "--overwrite")] = False,
) -> None:
    """Write a case table with what images and references tell: size, contrast, noise, scanner, age ..."""
    from joblib import cpu_count

    from nnunet_dro.evaluation.report.command_tables import columns_table
    from nnunet_dro.evaluation.stratifying.strata_table import strata_table
    from nnunet_dro.files.output_folder import check_new_file, replacing

    if output.suffix.lower() != ".csv":
        raise ValueError(f"`output` must end in .csv, got {str(output)!r}. Name another file.")
    check_new_file(output, overwrite=overwrite)
    with progress_bar("Reading images") as progress:
        jobs = jobs or cpu_count()
        table = strata_table(images, labels, dicom=dicom, cases=cases, jobs=jobs, workers=workers, progress=progress)
    with replacing(output) as path:
        table.to_csv(path, index=False)
    show(columns_table(table), output)
