"""A case table for any dataset.

What images, references, JSON and DICOM files tell of every case.
"""

import json
import logging
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from nnunet_dro.bad_input import InputError, bad_input
from nnunet_dro.evaluation.scoring.label_maps import list_label_maps
from nnunet_dro.evaluation.scoring.map_pairs import labels_of
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

    Args:
        images: Folder of the images, with JSON files beside them.
        labels: Folder of the references.
        dicom: Folder with a folder of DICOM files per case.
        cases: A case table to complete.
        jobs: How many cases are measured at a time.
        workers: Address of a dask cluster that measures them instead.
        progress: Called with the number of finished cases and the number of all cases.

    Returns:
        A row per case, and those that ``cases`` has besides: ``case``, the columns of ``cases``,
        those of `ATTRIBUTES`, and those of `FIELDS`, where DICOM files go before JSON files.
        Entries are text, unknown ones are ``missing``; columns without any are left out. Images
        that fit only by the rule of another reader are named in a warning that is logged.

    Raises:
        FileNotFoundError: If a folder, an image or the DICOM files of a case are missing.
        ValueError: If a file cannot be read, or ``cases`` has a column that is computed.
    """
    for name, folder in (("images", images), ("dicom", dicom)):
        if folder is not None and not folder.is_dir():
            raise FileNotFoundError(
                bad_input(
                    name,
                    must="be a folder",
                    got=repr(str(folder)),
                    cure="Check the path.",
                )
            )

    # Whatever is missing is reported before the long work.
    references = list_label_maps(labels)
    table = pd.DataFrame({"case": list(references)})
    if cases is not None:
        table = read_cases_of(cases, references)
    acquisitions = {}
    for case in references:
        find_image(images, case)
        acquisitions[case] = of_sidecar(images, case)
        if dicom:
            acquisitions[case] |= of_dicom(dicom, case)
    _check_columns(table, acquisitions)

    values, notes = measure_cases(
        _files(images, labels, references),
        list(ATTRIBUTES),
        jobs=jobs,
        workers=workers,
        progress=progress,
    )
    for note in notes:
        logging.getLogger(__name__).warning(note)
    # Rows of other cases, of the test set for instance, stay in the table.
    computed = _computed_columns(values, acquisitions)
    return table.merge(computed, on="case", how="left").fillna(MISSING)


def _computed_columns(
    values: Mapping[str, Mapping[str, float]], acquisitions: Mapping[str, Mapping[str, str]]
) -> pd.DataFrame:
    """The column ``case``, and those of `ATTRIBUTES` and `FIELDS` that have any entry.

    Args:
        values: Case to what was measured, by the name of the attribute.
        acquisitions: Case to what is known of its acquisition, by the column.
    """
    columns = [attribute.column for attribute in ATTRIBUTES.values()]
    columns += [field.column for field in FIELDS]
    rows = []
    for case, acquisition in acquisitions.items():
        row = {"case": case, **dict.fromkeys(columns, MISSING)}
        for name, value in values[case].items():
            row[ATTRIBUTES[name].column] = written(value)
        rows.append({**row, **acquisition})

    computed = pd.DataFrame(rows)
    with_entries = [column for column in columns if (computed[column] != MISSING).any()]
    return computed[["case", *with_entries]]


def _files(images: Path, labels: Path, references: Mapping[str, Path]) -> list[CaseFiles]:
    """The files of every case, and what the dataset says that the references are of."""
    described = labels_of(find_dataset_json(labels), references.values())
    return [CaseFiles(case, path, images, described) for case, path in references.items()]


def _check_columns(table: pd.DataFrame, acquisitions: Mapping[str, Mapping[str, str]]) -> None:
    """Check that a case table has no column that is computed."""
    computed = {attribute.column for attribute in ATTRIBUTES.values()}
    for entries in acquisitions.values():
        computed.update(column for column, entry in entries.items() if entry != MISSING)

    both = [column for column in attributes_of(table) if column in computed]
    if both:
        raise InputError(
            "cases",
            must="have other columns than those computed",
            got=name_some(both),
            cure="Rename the column, or leave --cases out.",
        )


#: Years per unit of DICOM's ages.
_YEARS = {"Y": 1.0, "M": 1 / 12, "W": 7 / 365.25, "D": 1 / 365.25}


@dataclass(frozen=True)
class Field:
    """Something that is known of an acquisition.

    Attributes:
        column: Its column in the case table.
        key: Its name in BIDS.
        tag: Its tag in DICOM.
        read: Makes an entry of the table of what is written there; empty where it means nothing.
    """

    column: str
    key: str
    tag: str
    read: Callable[[Any], str]


def _text(value: Any) -> str:
    """Text or a number, with single spaces."""
    if not isinstance(value, str | int | float):
        return ""
    # DICOM that is not UTF-8 is mostly Latin-1; SimpleITK hides its bytes in these characters.
    text = re.sub("[\udc80-\udcff]", lambda byte: chr(ord(byte[0]) - 0xDC00), str(value))
    return " ".join(text.split())


def _number(value: Any) -> str:
    """A finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return ""
    return f"{number:.6g}" if math.isfinite(number) else ""


def _age(value: Any) -> str:
    """Years, of a number or of text such as 061Y or 018M."""
    match = re.fullmatch(r"\s*(\d{1,3})([YMWD])\s*", str(value).upper())
    if match is None:
        return _number(value)

    number, unit = match.groups()
    return f"{int(number) * _YEARS[unit]:.4g}"


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
        raise InputError(
            "images",
            must="have readable JSON files",
            got=repr(str(path)),
            cure="Correct it.",
        ) from error
    if not isinstance(content, dict):
        raise InputError(
            "images",
            must="have JSON files with names and values",
            got=repr(str(path)),
            cure="Correct it.",
        )
    return _entries(content, lambda field: field.key)


def of_dicom(folder: Path, case: str) -> dict[str, str]:
    """What the DICOM files of a case say: those of the first that is an image."""
    import SimpleITK

    folder_of_case = folder / case
    if not folder_of_case.is_dir():
        raise FileNotFoundError(
            bad_input(
                "dicom",
                must="hold a folder for every case",
                got=f"none for {case!r} in {folder}",
                cure="Name the folders like the label maps, without the file ending.",
            )
        )

    SimpleITK.ProcessObject.SetGlobalWarningDisplay(False)
    reader = SimpleITK.ImageFileReader()
    reader.SetImageIO("GDCMImageIO")
    for path in sorted(folder_of_case.rglob("*")):
        if not path.is_file():
            continue
        reader.SetFileName(str(path))
        try:
            reader.ReadImageInformation()
        except RuntimeError:
            # Reports, structures and other files are no images.
            continue
        metadata = {key: reader.GetMetaData(key) for key in reader.GetMetaDataKeys()}
        return _entries(metadata, lambda field: field.tag)

    raise InputError(
        "dicom",
        must="have a readable DICOM image for every case",
        got=f"none in {str(folder_of_case)!r}",
        cure="Copy the images there, or leave --dicom out.",
    )


def _entries(metadata: Mapping[str, Any], name_of: Callable[[Field], str]) -> dict[str, str]:
    """The entries of the case table that metadata give, by column; empty ones are left out."""
    entries = {field.column: field.read(metadata.get(name_of(field))) for field in FIELDS}
    return {column: entry for column, entry in entries.items() if entry}
