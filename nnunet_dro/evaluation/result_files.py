"""The files of an evaluation or a comparison: what stands in them, and an evaluation read from them again."""

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.comparison import Comparison
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.instances import LESION_COUNTS
from nnunet_dro.evaluation.stratum_statistics import worst_strata
from nnunet_dro.naming import name_some

#: The name of the format of summary.json; its number changes with the format.
FORMAT = "nnunet-dro evaluation 1"
COMPARISON_FORMAT = "nnunet-dro comparison 1"


def evaluation_files(evaluation: Evaluation) -> dict[str, str]:
    """The tables of an evaluation: name to content.

    Args:
        evaluation: The evaluation.

    Returns:
        ``scores.csv``, ``strata.csv`` and ``summary.json``, and ``lesions.csv`` and ``lesion_sizes.csv`` where lesions
        were compared; undefined values are empty, or null.
    """
    summary = {
        "format": FORMAT,
        "method": evaluation.method,
        **evaluation.about,
        "notes": list(evaluation.notes),
        "worst": _records(evaluation.worst),
        "false_positives": _records(evaluation.false_positives),
        "strata": _records(evaluation.strata),
        "scores": _records(evaluation.scores),
        "lesion_sizes": _records(evaluation.lesion_sizes),
        "stratum_of_case": {
            attribute: {"order": [str(c) for c in strata.cat.categories], "cases": strata.astype(str).to_dict()}
            for attribute, strata in evaluation.stratum_of_case.items()
        },
    }
    # Whole numbers, although the labels whose lesions are not compared have none.
    counts = {column: "Int64" for column in LESION_COUNTS if column in evaluation.scores.columns}
    of_lesions = {}
    if evaluation.about.get("options", {}).get("instances"):
        tables = {"lesions.csv": evaluation.lesions, "lesion_sizes.csv": evaluation.lesion_sizes}
        of_lesions = {name: table.to_csv(index=False) for name, table in tables.items() if len(table.columns)}
    return {
        "scores.csv": evaluation.scores.astype(counts).to_csv(index=False),
        "strata.csv": evaluation.strata.to_csv(index=False),
        **of_lesions,
        "summary.json": json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
    }


def comparison_files(comparison: Comparison) -> dict[str, str]:
    """The tables of a comparison: name to content.

    Args:
        comparison: The comparison.

    Returns:
        ``comparison.csv``, ``changed.csv`` (the cases that changed most), ``summary.json`` and, where a method has
        several trainings, ``trainings.csv``.
    """
    trainings = comparison.trainings
    summary = {
        "format": COMPARISON_FORMAT,
        "methods": list(comparison.methods),
        "about": comparison.about,
        "notes": list(comparison.notes),
        "comparison": _records(comparison.table),
        "changed": _records(comparison.changed),
        **({} if trainings is None else {"trainings": _records(trainings)}),
    }
    return {
        "comparison.csv": comparison.table.to_csv(index=False),
        "changed.csv": comparison.changed.to_csv(index=False),
        **({} if trainings is None else {"trainings.csv": trainings.to_csv(index=False)}),
        "summary.json": json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
    }


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dictionaries, with None for NaN: JSON has no NaN."""
    rows = table.to_dict(orient="records")
    return [{str(k): None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()} for row in rows]


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
        raise FileNotFoundError(f"`evaluation` must be a folder with a summary.json, got {str(folder)!r}. {cure}")
    cure = "Evaluate again with this version of nnunet-dro."
    try:
        summary = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
        if summary["format"] == COMPARISON_FORMAT:
            cure = "Give the folder of one evaluation; `nnunet-dro compare --overwrite` makes a comparison again."
        if summary["format"] != FORMAT:
            raise ValueError(summary["format"])
        tables = {name: _table(summary[name]) for name in ("scores", "strata", "false_positives")}
        strata = {
            attribute: pd.Series(entry["cases"], dtype=object).astype(pd.CategoricalDtype(entry["order"], ordered=True))
            for attribute, entry in summary["stratum_of_case"].items()
        }
        reference = summary["options"].get("reference_stratum")
        about = {name: summary[name] for name in ("versions", "options", "definitions", "inputs", "requirements")}
        about |= {"protocol": summary["protocol"]} if "protocol" in summary else {}
        return Evaluation(
            method=summary["method"],
            stratum_of_case=strata,
            # Where no value is defined there is no row, and the file does not tell the columns.
            worst=worst_strata(tables["strata"], reference=reference),
            about=about,
            notes=tuple(summary["notes"]),
            # Evaluations of earlier versions have none.
            lesion_sizes=_table(summary.get("lesion_sizes", [])),
            lesions=_lesions(folder) if summary["options"].get("instances") else pd.DataFrame(),
            **tables,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"`evaluation` must hold a summary.json of nnunet-dro, got {str(path)!r}, which is not one. {cure}"
        ) from error


def _lesions(folder: Path) -> pd.DataFrame:
    """The lesions of an evaluation's folder; none where their file is gone, which no report needs."""
    path = folder / "lesions.csv"
    if not path.is_file():
        return pd.DataFrame()
    names = ("case", "label", "of", "matched_with")
    lesions = pd.read_csv(path, dtype=dict.fromkeys(names, "str"), keep_default_na=False, na_values=[""])
    return lesions.assign(matched_with=lesions["matched_with"].fillna(""))


def _table(records: list[dict[str, Any]]) -> pd.DataFrame:
    table = pd.DataFrame(records)
    for column in table.columns:
        # A column without any value would be read as text.
        if table[column].isna().all():
            table[column] = table[column].astype(float)
    return table


def named_evaluations(folders: list[str]) -> dict[str, Path]:
    """Methods and their folders, from ``NAME=FOLDER``.

    Raises:
        ValueError: If an entry has another form, or two entries have the same name.
    """
    named: dict[str, Path] = {}
    for entry in folders:
        name, separator, folder = entry.partition("=")
        if not separator or not name.strip() or not folder:
            raise ValueError(f"`evaluations` must be NAME=FOLDER, got {entry!r}. Write, for example, ERM=results/erm.")
        if name in named:
            raise ValueError(f"`evaluations` must have different names, got {name_some([name])} twice. Rename one.")
        named[name] = Path(folder)
    return named


def named_trainings(entries: list[str]) -> dict[str, list[Path]]:
    """Methods and the folders of their trainings, from ``NAME=FOLDER`` or ``NAME=FOLDER,FOLDER,FOLDER``.

    Raises:
        ValueError: If an entry has another form, two entries have the same name, a folder is given twice for a method,
            or it is not clear which folders are meant.
    """
    return {name: _trainings(str(folders)) for name, folders in named_evaluations(entries).items()}


def _trainings(text: str) -> list[Path]:
    folders = text.split(",")
    if len(folders) > 1 and Path(text).is_dir():
        cure = "A comma separates trainings. Rename the folder."
        raise ValueError(f"`evaluations` must be folders without a comma in their names, got {text!r}. {cure}")
    if not all(folder.strip() for folder in folders):
        cure = "Write, for example, ERM=seed0,seed1,seed2, without spaces."
        raise ValueError(f"`evaluations` must name a folder between two commas, got {text!r}. {cure}")
    for position, folder in enumerate(folders):
        if "=" in folder and not Path(folder).is_dir():
            cure = "The name ends at the first equals sign; a space goes between methods, a comma between trainings."
            raise ValueError(f"`evaluations` must be folders that exist, got {folder!r}. {cure}")
        if Path(folder).resolve() in [Path(other).resolve() for other in folders[:position]]:
            cure = "One training twice says nothing about others: name every training once."
            raise ValueError(f"`evaluations` must be different trainings, got {folder!r} twice. {cure}")
    return [Path(folder) for folder in folders]
