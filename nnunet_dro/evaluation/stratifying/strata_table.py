"""A case table for any dataset.

What images, references, JSON and DICOM files tell of every case.
"""

import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from nnunet_dro.bad_input import InputError, check_folder
from nnunet_dro.evaluation.scoring.label_maps import list_label_maps
from nnunet_dro.evaluation.scoring.map_pairs import labels_of
from nnunet_dro.evaluation.stratifying.attributes import (
    ATTRIBUTES,
    CaseFiles,
    case_table_entry,
    measure_cases,
)
from nnunet_dro.evaluation.stratifying.images import find_image, first_file
from nnunet_dro.files.case_table import EMPTY_ENTRIES, MISSING, attributes_of, read_cases_of
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import find_dataset_json, read_if_usable


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
        Entries are text, unknown ones are ``missing``; columns without any are left out. Warnings
        are logged of entries of files that are not understood, and of images that fit only by the
        rule of another reader.

    Raises:
        FileNotFoundError: If a folder, an image or the DICOM files of a case are missing.
        ValueError: If a file cannot be read, or ``cases`` has a column that is computed.
    """
    check_folder("images", images, "Check the path.")
    if dicom is not None:
        check_folder("dicom", dicom, "Check the path.")

    # Whatever is missing is reported before the long work.
    references = list_label_maps(labels)
    table = pd.DataFrame({"case": list(references)})
    if cases is not None:
        table = read_cases_of(cases, references)
    acquisitions, notes_on_entries = _acquisitions(references, images, dicom)
    _check_columns(table, acquisitions)

    described = labels_of(find_dataset_json(labels), references.values())
    values, notes = measure_cases(
        [CaseFiles(case, path, images, described) for case, path in references.items()],
        list(ATTRIBUTES),
        jobs=jobs,
        workers=workers,
        progress=progress,
    )
    for note in [*notes, *notes_on_entries]:
        logging.getLogger(__name__).warning(note)
    # Rows of other cases, of the test set for instance, stay in the table.
    computed = _computed_columns(values, acquisitions)
    return table.merge(computed, on="case", how="left").fillna(MISSING)


def _acquisitions(
    cases: Iterable[str], images: Path, dicom: Path | None
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """What JSON and DICOM files tell of the acquisition of every case, by column, and notes."""
    acquisitions = {}
    not_understood: list[str] = []
    for case in cases:
        find_image(images, case)
        acquisitions[case] = of_sidecar(images, case, not_understood)
        if dicom:
            acquisitions[case] |= of_dicom(dicom, case, not_understood)
    if not not_understood:
        return acquisitions, []

    note = (
        f"Entries that are not understood count as missing: {name_some(not_understood)}. Write "
        "text in quotes, and numbers without units, ages in years."
    )
    return acquisitions, [note]


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
        row |= {
            ATTRIBUTES[name].column: case_table_entry(value) for name, value in values[case].items()
        }
        rows.append({**row, **acquisition})

    computed = pd.DataFrame(rows)
    with_entries = [column for column in columns if (computed[column] != MISSING).any()]
    return computed[["case", *with_entries]]


def _check_columns(table: pd.DataFrame, acquisitions: Mapping[str, Mapping[str, str]]) -> None:
    """Check that a case table has no column that is computed."""
    computed = {attribute.column for attribute in ATTRIBUTES.values()}
    computed.update(*acquisitions.values())
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


def of_sidecar(images: Path, case: str, not_understood: list[str]) -> dict[str, str]:
    """What the JSON file beside an image says, as BIDS has it; see `_entries`."""
    path = first_file(images, (f"{case}_0000.json", f"{case}.json"))
    if path is None:
        return {}

    content = read_if_usable(path)
    if content is None:
        raise InputError(
            "images",
            must="have readable JSON files, with names and values",
            got=repr(str(path)),
            cure="Correct it.",
        )
    written_there = {field: content.get(field.key) for field in FIELDS}
    return _entries(written_there, path.name, not_understood)


def of_dicom(folder: Path, case: str, not_understood: list[str]) -> dict[str, str]:
    """What the DICOM files of a case say: those of the first that is an image; see `_entries`."""
    import SimpleITK

    folder_of_case = folder / case
    check_folder(
        "dicom",
        folder_of_case,
        "Name the folders like the label maps, without the file ending.",
        must="hold a folder for every case",
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
        written_there = {field: metadata.get(field.tag) for field in FIELDS}
        return _entries(written_there, f"{case}/{path.name}", not_understood)

    raise InputError(
        "dicom",
        must="have a readable DICOM image for every case",
        got=f"none in {str(folder_of_case)!r}",
        cure="Copy the images there, or leave --dicom out.",
    )


def _entries(
    written_there: Mapping[Field, Any], file: str, not_understood: list[str]
) -> dict[str, str]:
    """The entries of the case table that a file gives, by column; empty ones are left out.

    What is not understood goes to ``not_understood``, with the name of the file.
    """
    entries = {}
    for field, value in written_there.items():
        if value is None or str(value).strip() in EMPTY_ENTRIES:
            continue
        entry = field.read(value)
        if entry:
            entries[field.column] = entry
        else:
            not_understood.append(f"{field.key} {value!r} of {file}")
    return entries
