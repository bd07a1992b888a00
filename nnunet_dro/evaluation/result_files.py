"""The files of an evaluation or a comparison.

What stands in them, and an evaluation read from them again.
"""

import hashlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.scoring.instances import LESION_COUNTS
from nnunet_dro.evaluation.scoring.score_files import sha256_of
from nnunet_dro.evaluation.scoring.scoring import NUMBERS
from nnunet_dro.evaluation.statistics.columns import COUNTS, GUARANTEED, STATISTICS
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise
from nnunet_dro.evaluation.statistics.worst_strata import worst_strata
from nnunet_dro.files.json_file import json_records, json_text, read_json
from nnunet_dro.naming import name_some

#: The name of the format of summary.json; its number changes with the format.
FORMAT = "nnunet-dro evaluation 2"
COMPARISON_FORMAT = "nnunet-dro comparison 2"

_WITH_TABLES = "nnunet-dro evaluation 1"  # That of version 0.2, which had the tables once more in summary.json.
OF_LESIONS = (
    "lesions.csv",
    "lesion_sizes.csv",
)  # The tables that are written only where lesions were compared.

#: All tables that an evaluation or a comparison may have; those that a new one lacks do not stay in
#: its folder.
TABLES = ("scores.csv", "strata.csv", *OF_LESIONS, "comparison.csv", "changed.csv", "trainings.csv")

#: The columns that are names, in every table.
_NAMES = (
    "attribute",
    "stratum",
    "label",
    "metric",
    "case",
    "max_case",
    "of",
    "matched_with",
    "unit",
    "volume",
)

#: Table to the columns without which it cannot be read.
_NEEDED = {
    "scores": ("case", "label"),
    "strata": ("attribute", "stratum", "label", "metric", "n", *STATISTICS),
}


def evaluation_files(evaluation: Evaluation) -> dict[str, str]:
    """The tables of an evaluation, name to content; undefined values are empty, or null."""
    # Whole numbers, although the labels whose lesions are not compared have none.
    counts = {column: "Int64" for column in LESION_COUNTS if column in evaluation.scores.columns}
    tables = {"scores.csv": evaluation.scores.astype(counts), "strata.csv": evaluation.strata}
    if evaluation.options.instances:
        of_lesions = zip(OF_LESIONS, (evaluation.lesions, evaluation.lesion_sizes), strict=True)
        tables |= {name: table for name, table in of_lesions if len(table.columns)}
    files = {name: table.to_csv(index=False) for name, table in tables.items()}
    summary = {
        "format": FORMAT,
        "method": evaluation.method,
        **evaluation.about,
        "tables_sha256": {
            name: hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
            for name, text in files.items()
        },
        "notes": list(evaluation.notes),
        "worst": json_records(evaluation.worst),
        "false_positives": json_records(evaluation.false_positives),
        "stratum_of_case": {
            attribute: {
                "order": [str(c) for c in strata.cat.categories],
                "cases": strata.astype(str).to_dict(),
            }
            for attribute, strata in evaluation.stratum_of_case.items()
        },
    }
    return files | {"summary.json": json_text(summary)}


def comparison_files(comparison: Comparison) -> dict[str, str]:
    """The tables of a comparison, name to content: changed.csv has the cases that changed most."""
    tables = {"comparison.csv": comparison.table, "changed.csv": comparison.changed}
    tables |= {} if comparison.trainings is None else {"trainings.csv": comparison.trainings}
    summary = {
        "format": COMPARISON_FORMAT,
        "methods": list(comparison.methods),
        "about": comparison.about,
        "notes": list(comparison.notes),
    }
    return {name: table.to_csv(index=False) for name, table in tables.items()} | {
        "summary.json": json_text(summary)
    }


def read_evaluation(folder: Path) -> Evaluation:
    """Read what `nnunet-dro evaluate` wrote.

    Args:
        folder: Its output folder.

    Returns:
        The evaluation.

    Raises:
        FileNotFoundError: If there is no summary.json in the folder.
        ValueError: If that file is not the summary of an evaluation.
    """
    path = folder / "summary.json"
    if not path.is_file():
        cure = "Give the folder that `nnunet-dro evaluate` wrote."
        raise FileNotFoundError(
            f"`evaluation` must be a folder with a summary.json, got {str(folder)!r}. {cure}"
        )
    cure = "Evaluate again with this version of nnunet-dro."
    # Pandas warns where it makes something of rows that are none.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            summary = read_json(path, errors="surrogateescape")
            if str(summary["format"]).startswith(COMPARISON_FORMAT[:-1]):
                cure = "Give the folder of one evaluation; `nnunet-dro compare --overwrite` makes a comparison again."
            if summary["format"] not in (FORMAT, _WITH_TABLES):
                raise ValueError(summary["format"])
            digests = summary["tables_sha256"] if summary["format"] == FORMAT else {}
            # No report needs the lesions.
            needed = [
                (folder / name, digest) for name, digest in digests.items() if name != OF_LESIONS[0]
            ]
            changed = [
                path for path, digest in needed if not path.is_file() or sha256_of(path) != digest
            ]
            if not changed:
                return _parsed(summary, folder)
        except (ValueError, KeyError, TypeError, AttributeError, Warning) as error:
            got = f"{str(path)!r}, which is not one"
            raise ValueError(
                f"`evaluation` must hold a summary.json of nnunet-dro, got {got}. {cure}"
            ) from error
    got = f"another {changed[0].name}, or none"
    cure = "Restore the file, or evaluate again."
    raise ValueError(
        f"`evaluation` must hold its tables as written, got {got}, in {str(folder)!r}. {cure}"
    )


def _parsed(summary: Mapping[str, Any], folder: Path) -> Evaluation:
    options = summary["options"]
    of_lesions = ("lesions", "lesion_sizes") if options.get("instances") else ()
    tables = {
        "false_positives": _table("false_positives", pd.DataFrame(summary["false_positives"]))
    }
    for name in ("scores", "strata", *of_lesions):
        path = folder / f"{name}.csv"
        if name in summary:
            tables[name] = _table(name, pd.DataFrame(summary[name]))
        elif name != "lesions" or path.is_file():
            tables[name] = _table(name, _read_csv(path))
    strata = {
        attribute: pd.Series(entry["cases"], dtype=object).astype(
            pd.CategoricalDtype(entry["order"], ordered=True)
        )
        for attribute, entry in summary["stratum_of_case"].items()
    }
    for name, columns in _NEEDED.items():
        tables[name][list(columns)]
    if not {*COUNTS, *GUARANTEED} <= set(tables["strata"].columns):
        tables["strata"] = _described_anew(tables["strata"], tables["scores"], strata, options)
    about = {
        name: summary[name]
        for name in ("versions", "options", "definitions", "inputs", "requirements")
    }
    about |= {"protocol": summary["protocol"]} if "protocol" in summary else {}
    return Evaluation(
        method=summary["method"],
        stratum_of_case=strata,
        # Where no value is defined there is no row, and the file does not tell the columns.
        worst=worst_strata(tables["strata"], reference=options.get("reference_stratum")),
        about=about,
        notes=tuple(summary["notes"]),
        **tables,
    )


def _described_anew(
    known: pd.DataFrame,
    scores: pd.DataFrame,
    strata: "Mapping[str, pd.Series[str]]",
    options: Mapping[str, Any],
) -> pd.DataFrame:
    """The statistics of an evaluation by an earlier version, from its scores.

    What only the file knows stays.
    """
    patient = options.get("patient")
    found = summarise(
        scores,
        strata,
        metrics=known["metric"].unique().tolist(),
        patient_of_case=None
        if patient is None
        else scores.drop_duplicates("case").set_index("case")[patient],
        n_resamples=options["n_resamples"],
        seed=options["seed"],
    )
    keys = ["attribute", "stratum", "label", "metric"]
    return found.merge(
        known[[*keys, *(c for c in known.columns if c not in found.columns)]], on=keys, how="left"
    )


def _read_csv(path: Path) -> pd.DataFrame:
    """A table as it was written.

    Names are text whatever they look like, and no digit of a number is lost.
    """
    columns = [
        str(name) for name in pd.read_csv(path, nrows=0, encoding_errors="surrogateescape").columns
    ]
    names = [name for name in columns if _is_name(path.stem, name)]
    table = pd.read_csv(
        path,
        dtype=dict.fromkeys(names, object),
        keep_default_na=False,
        na_values={name: [""] for name in columns if name not in names},
        encoding_errors="surrogateescape",
    )
    # Before version 3.1 pandas reads numbers that are off by their last digit; Python does not.
    inexact = list(table.select_dtypes("float").columns)
    texts = pd.read_csv(
        path, usecols=inexact, dtype=object, na_filter=False, encoding_errors="surrogateescape"
    )
    return table.assign(**{name: texts[name].replace("", "nan").astype(float) for name in inexact})


def _is_name(table: str, column: str) -> bool:
    """Whether a column has names; what the case table adds to the scores are names, too."""
    return column not in NUMBERS if table == "scores" else column in _NAMES


def _table(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """A table with numbers where numbers must be, and texts where names must be."""
    for column in table.columns:
        if column in _NAMES and not all(isinstance(value, str) for value in table[column]):
            raise TypeError(column)
        if not _is_name(name, column):
            table[column] = pd.to_numeric(table[column])
        if table[column].isna().all():
            # A column without any value would be read as text.
            table[column] = table[column].astype(float)
    return table


def named_evaluations(folders: list[str]) -> dict[str, Path]:
    """Methods and their folders, from ``NAME=FOLDER``."""
    named: dict[str, Path] = {}
    for entry in folders:
        name, separator, folder = entry.partition("=")
        if not separator or not name.strip() or not folder:
            raise ValueError(
                f"`evaluations` must be NAME=FOLDER, got {entry!r}. Write, for example, ERM=results/erm."
            )
        if name in named:
            raise ValueError(
                f"`evaluations` must have different names, got {name_some([name])} twice. Rename one."
            )
        named[name] = Path(folder)
    return named


def named_trainings(entries: list[str]) -> dict[str, list[Path]]:
    """Methods and the folders of their trainings, from ``NAME=FOLDER`` or ``NAME=FOLDER,FOLDER,FOLDER``."""
    return {name: _trainings(str(folders)) for name, folders in named_evaluations(entries).items()}


def _trainings(text: str) -> list[Path]:
    folders = text.split(",")
    if len(folders) > 1 and Path(text).is_dir():
        cure = "A comma separates trainings. Rename the folder."
        raise ValueError(
            f"`evaluations` must be folders without a comma in their names, got {text!r}. {cure}"
        )
    if not all(folder.strip() for folder in folders):
        cure = "Write, for example, ERM=seed0,seed1,seed2, without spaces."
        raise ValueError(
            f"`evaluations` must name a folder between two commas, got {text!r}. {cure}"
        )
    for position, folder in enumerate(folders):
        if "=" in folder and not Path(folder).is_dir():
            cure = "The name ends at the first equals sign; a space goes between methods, a comma between trainings."
            raise ValueError(f"`evaluations` must be folders that exist, got {folder!r}. {cure}")
        if Path(folder).resolve() in [Path(other).resolve() for other in folders[:position]]:
            cure = "One training twice says nothing about others: name every training once."
            raise ValueError(
                f"`evaluations` must be different trainings, got {folder!r} twice. {cure}"
            )
    return [Path(folder) for folder in folders]
