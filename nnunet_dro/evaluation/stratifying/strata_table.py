"""A case table for any dataset.

What images, references, JSON and DICOM files tell of every case.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.scoring.label_maps import list_label_maps, read_labels
from nnunet_dro.evaluation.stratifying.attributes import (
    ATTRIBUTES,
    CaseFiles,
    measure_cases,
    written,
)
from nnunet_dro.evaluation.stratifying.images import find_image, first_file
from nnunet_dro.files.case_table import MISSING, attributes_of, read_cases_of
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import find_dataset_json


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

    A row per case, and those that ``cases`` has besides: ``case``, the columns of ``cases``, those
    of `ATTRIBUTES`, and those of `FIELDS`, where DICOM files go before JSON files. Entries are
    text, unknown ones are ``missing``; columns without any are left out.
    """
    for name, folder in (("images", images), ("dicom", dicom)):
        if folder is not None and not folder.is_dir():
            raise FileNotFoundError(
                f"`{name}` must be a folder, got {str(folder)!r}. Check the path."
            )
    references = list_label_maps(labels)
    given = (
        pd.DataFrame({"case": list(references)})
        if cases is None
        else read_cases_of(cases, references)
    )
    # Whatever is missing is reported before the long work.
    acquisitions = {}
    for case in references:
        find_image(images, case)
        acquisitions[case] = of_sidecar(images, case) | (of_dicom(dicom, case) if dicom else {})
    computed = {attribute.column for attribute in ATTRIBUTES.values()}
    computed |= {
        column
        for fields in acquisitions.values()
        for column, value in fields.items()
        if value != MISSING
    }
    if both := [column for column in attributes_of(given) if column in computed]:
        cure = "Rename the column, or leave --cases out."
        raise ValueError(
            f"`cases` must have other columns than those computed, got {name_some(both)}. {cure}"
        )
    dataset_json = find_dataset_json(labels)
    ignore = read_labels(dataset_json).ignore if dataset_json else None
    files = [CaseFiles(case, path, images, ignore) for case, path in references.items()]
    measured = measure_cases(files, list(ATTRIBUTES), jobs=jobs, workers=workers, progress=progress)
    columns = [attribute.column for attribute in ATTRIBUTES.values()] + [
        field.column for field in FIELDS
    ]
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


_YEARS = {
    "Y": 1.0,
    "M": 1 / 12,
    "W": 7 / 365.25,
    "D": 1 / 365.25,
}  # Years per unit of DICOM's ages.


@dataclass(frozen=True)
class Field:
    """What is known of an acquisition.

    Column, name in BIDS, tag in DICOM, and how it is read (empty: nothing).
    """

    column: str
    key: str
    tag: str
    read: Callable[[Any], str]


def _text(value: Any) -> str:
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""


def _number(value: Any) -> str:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return ""
    return f"{number:.6g}" if math.isfinite(number) else ""


def _age(value: Any) -> str:
    """Years, of a number or of text such as 061Y or 018M."""
    if match := re.fullmatch(r"\s*(\d{1,3})([YMWD])\s*", str(value).upper()):
        return f"{int(match[1]) * _YEARS[match[2]]:.4g}"
    return _number(value)


#: In the order of columns.
FIELDS = (
    Field("manufacturer", "Manufacturer", "0008|0070", _text),
    Field("scanner", "ManufacturersModelName", "0008|1090", _text),
    Field("field_strength_t", "MagneticFieldStrength", "0018|0087", _number),
    Field("slice_thickness_mm", "SliceThickness", "0018|0050", _number),
    Field("sex", "PatientSex", "0010|0040", _text),
    Field("age", "PatientAge", "0010|1010", _age),
)


def of_sidecar(images: Path, case: str) -> dict[str, str]:
    """What the JSON file beside an image says, as BIDS has it."""
    path = first_file(images, (f"{case}_0000.json", f"{case}.json"))
    if path is None:
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"`images` must have readable JSON files, got {str(path)!r}. Correct it."
        ) from error
    if not isinstance(content, dict):
        raise ValueError(
            f"`images` must have JSON files with names and values, got {str(path)!r}. Correct it."
        )
    return _entries(content, lambda field: field.key)


def of_dicom(folder: Path, case: str) -> dict[str, str]:
    """What the DICOM files of a case say."""
    import SimpleITK

    of_case = folder / case
    if not of_case.is_dir():
        cure = "Name the folders like the label maps, without the file ending."
        raise FileNotFoundError(
            f"`dicom` must hold a folder for every case, got none for {case!r} in {folder}. {cure}"
        )
    SimpleITK.ProcessObject.SetGlobalWarningDisplay(False)
    reader = SimpleITK.ImageFileReader()
    reader.SetImageIO("GDCMImageIO")
    for path in sorted(path for path in of_case.rglob("*") if path.is_file()):
        reader.SetFileName(str(path))
        try:
            reader.ReadImageInformation()
        except RuntimeError:
            # Reports, structures and other files are no images.
            continue
        said = {key: reader.GetMetaData(key) for key in reader.GetMetaDataKeys()}
        return _entries(said, lambda field: field.tag)
    cure = "Copy the images there, or leave --dicom out."
    raise ValueError(
        f"`dicom` must have a readable DICOM image for every case, got none in {str(of_case)!r}. {cure}"
    )


def _entries(said: Mapping[str, Any], name_of: Callable[[Field], str]) -> dict[str, str]:
    found = {
        field.column: field.read(said[name_of(field)]) for field in FIELDS if name_of(field) in said
    }
    return {column: entry for column, entry in found.items() if entry}
