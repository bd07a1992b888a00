"""A case table for any dataset: what images and references tell of every case."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from nnunet_dro.evaluation.scoring.label_maps import list_label_maps
from nnunet_dro.evaluation.scoring.labels import read_labels
from nnunet_dro.evaluation.stratifying.acquisition import FIELDS, of_dicom, of_sidecar
from nnunet_dro.evaluation.stratifying.attributes import ATTRIBUTES, CaseFiles
from nnunet_dro.evaluation.stratifying.auto_strata import measure_cases, written
from nnunet_dro.evaluation.stratifying.images import find_image
from nnunet_dro.files.case_table import MISSING, attributes_of, check_cases, read_cases
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.dataset_json import find_dataset_json


def strata_table(
    images: Path,
    labels: Path,
    *,
    dicom: Path | None = None,
    cases: Path | None = None,
    jobs: int | None = None,
    workers: str | None = None,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
) -> pd.DataFrame:
    """What images and references tell of every case.

    Returns:
        A row per case, and those that ``cases`` has besides: ``case``, the columns of ``cases``, those of `ATTRIBUTES`,
        and those of `FIELDS`, where DICOM files go before JSON files. Entries are text, unknown ones are ``missing``;
        columns without any are left out.
    """
    if not images.is_dir():
        raise FileNotFoundError(f"`images` must be a folder, got {str(images)!r}. Check the path.")
    if dicom is not None and not dicom.is_dir():
        raise FileNotFoundError(f"`dicom` must be a folder, got {str(dicom)!r}. Check the path.")
    references = list_label_maps(labels)
    given = pd.DataFrame({"case": list(references)}) if cases is None else read_cases(cases)
    try:
        check_cases(given, references)
    except ValueError as error:
        raise ValueError(f"{error} The table is {str(cases)!r}.") from error
    # Whatever is missing is reported before the long work.
    acquisitions = {}
    for case in references:
        find_image(images, case)
        acquisitions[case] = of_sidecar(images, case) | (of_dicom(dicom, case) if dicom else {})
    computed = {attribute.column for attribute in ATTRIBUTES.values()}
    computed |= {column for fields in acquisitions.values() for column, value in fields.items() if value != MISSING}
    if both := [column for column in attributes_of(given) if column in computed]:
        cure = "Rename the column, or leave --cases out."
        raise ValueError(f"`cases` must have other columns than those computed, got {name_some(both)}. {cure}")
    dataset_json = find_dataset_json(labels)
    ignore = read_labels(dataset_json).ignore if dataset_json else None
    files = [CaseFiles(case, path, images, ignore) for case, path in references.items()]
    measured = measure_cases(files, list(ATTRIBUTES), jobs=jobs, workers=workers, progress=progress)
    columns = [attribute.column for attribute in ATTRIBUTES.values()] + [field.column for field in FIELDS]
    rows = [
        {"case": case}
        | dict.fromkeys(columns, MISSING)
        | {ATTRIBUTES[name].column: written(value) for name, value in measured[case].items()}
        | acquisitions[case]
        for case in references
    ]
    found = pd.DataFrame(rows)
    found = found[["case", *(column for column in columns if (found[column] != MISSING).any())]]
    # Rows of other cases, of the test set for instance, stay in the table.
    return given.merge(found, on="case", how="left").fillna(MISSING)
