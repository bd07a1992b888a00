"""The files of an evaluation or a comparison: what stands in them, and an evaluation read from them again."""

import json
import math
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.scoring.instances import LESION_COUNTS
from nnunet_dro.evaluation.scoring.score_arrays import NUMBERS
from nnunet_dro.evaluation.statistics.columns import COUNTS, GUARANTEED, STATISTICS
from nnunet_dro.evaluation.statistics.lesion_sizes import NUMBERS as LESION_NUMBERS
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise, worst_strata
from nnunet_dro.files.json_file import read_json
from nnunet_dro.naming import name_some

#: The name of the format of summary.json; its number changes with the format.
FORMAT = "nnunet-dro evaluation 1"
COMPARISON_FORMAT = "nnunet-dro comparison 1"

#: The tables that are written only where lesions were compared.
OF_LESIONS = ("lesions.csv", "lesion_sizes.csv")

#: The columns that are names, in every table.
_NAMES = ("attribute", "stratum", "label", "metric", "case", "max_case")

#: Table to the columns without which it cannot be read.
_NEEDED = {"scores": ("case", "label"), "strata": ("attribute", "stratum", "label", "metric", "n", *STATISTICS)}

#: Rows of a table that are Python objects at a time: they take ten times the memory of their text.
_ROWS_AT_A_TIME = 20_000


def evaluation_files(evaluation: Evaluation) -> dict[str, str]:
    """The tables of an evaluation: name to content.

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
        "lesion_sizes": _records(evaluation.lesion_sizes),
        "stratum_of_case": {
            attribute: {"order": [str(c) for c in strata.cat.categories], "cases": strata.astype(str).to_dict()}
            for attribute, strata in evaluation.stratum_of_case.items()
        },
    }
    # Whole numbers, although the labels whose lesions are not compared have none.
    counts = {column: "Int64" for column in LESION_COUNTS if column in evaluation.scores.columns}
    of_lesions = {}
    if evaluation.options.instances:
        tables = zip(OF_LESIONS, (evaluation.lesions, evaluation.lesion_sizes), strict=True)
        of_lesions = {name: table.to_csv(index=False) for name, table in tables if len(table.columns)}
    return {
        "scores.csv": evaluation.scores.astype(counts).to_csv(index=False),
        "strata.csv": evaluation.strata.to_csv(index=False),
        **of_lesions,
        "summary.json": _json(summary, {"strata": evaluation.strata, "scores": evaluation.scores}),
    }


def comparison_files(comparison: Comparison) -> dict[str, str]:
    """The tables of a comparison: name to content.

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
        "changed": _records(comparison.changed),
        **({} if trainings is None else {"trainings": _records(trainings)}),
    }
    return {
        "comparison.csv": comparison.table.to_csv(index=False),
        "changed.csv": comparison.changed.to_csv(index=False),
        **({} if trainings is None else {"trainings.csv": trainings.to_csv(index=False)}),
        "summary.json": _json(summary, {"comparison": comparison.table}),
    }


def _json(summary: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> str:
    """A summary, and below it its long tables, with a line per row."""
    parts = [json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False).removesuffix("\n}")]
    for name, table in tables.items():
        parts.append(f",\n {json.dumps(name)}: [")
        for start in range(0, len(table), _ROWS_AT_A_TIME):
            parts += [",\n" if start else "\n", _lines(table.iloc[start : start + _ROWS_AT_A_TIME])]
        parts.append("\n ]")
    return "".join([*parts, "\n}\n"])


def _lines(table: pd.DataFrame) -> str:
    """JSON with a line per row, column by column: for millions of rows in half the time of Python's encoder."""
    names = [json.dumps(str(name), ensure_ascii=False).replace("%", "%%") for name in table.columns]
    form = "{" + ", ".join(f"{name}: %s" for name in names) + "}"
    columns = [_written(table.iloc[:, n]) for n in range(len(names))]
    return ",\n".join([form % row for row in zip(*columns, strict=True)])


def _written(column: "pd.Series[Any]") -> list[str]:
    """The values of a column as JSON, null for NaN: JSON has no NaN."""
    values: list[Any] = column.tolist()
    if pd.api.types.is_float_dtype(column.dtype) and not np.isinf(column.to_numpy()).any():
        return ["null" if value != value else repr(value) for value in values]
    if pd.api.types.is_integer_dtype(column.dtype):
        return list(map(str, values))
    # Names occur many times; 1, 1.0 and True are equal, and are not written alike.
    known: dict[tuple[type, Any], str] = {}
    for value in values:
        if (key := (type(value), value)) not in known:
            known[key] = json.dumps(_or_none(value), ensure_ascii=False, allow_nan=False)
    return [known[type(value), value] for value in values]


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dictionaries, with None for NaN."""
    rows = table.to_dict(orient="records")
    return [{str(name): _or_none(value) for name, value in row.items()} for row in rows]


def _or_none(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


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
    # Pandas warns where it makes something of rows that are none.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return _parsed(path)


def _parsed(path: Path) -> Evaluation:
    cure = "Evaluate again with this version of nnunet-dro."
    try:
        summary = read_json(path, errors="surrogateescape")
        if summary["format"] == COMPARISON_FORMAT:
            cure = "Give the folder of one evaluation; `nnunet-dro compare --overwrite` makes a comparison again."
        if summary["format"] != FORMAT:
            raise ValueError(summary["format"])
        tables = {name: _table(summary[name]) for name in ("strata", "false_positives")}
        tables["scores"] = _table(summary["scores"], numbers=NUMBERS)
        strata = {
            attribute: pd.Series(entry["cases"], dtype=object).astype(pd.CategoricalDtype(entry["order"], ordered=True))
            for attribute, entry in summary["stratum_of_case"].items()
        }
        for name, columns in _NEEDED.items():
            tables[name][list(columns)]
        if not {*COUNTS, *GUARANTEED} <= set(tables["strata"].columns):
            tables["strata"] = _described_anew(tables["strata"], tables["scores"], strata, summary["options"])
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
            lesion_sizes=_table(summary["lesion_sizes"], numbers=LESION_NUMBERS),
            lesions=_lesions(path.parent) if summary["options"].get("instances") else pd.DataFrame(),
            **tables,
        )
    except (ValueError, KeyError, TypeError, AttributeError, Warning) as error:
        raise ValueError(
            f"`evaluation` must hold a summary.json of nnunet-dro, got {str(path)!r}, which is not one. {cure}"
        ) from error


def _described_anew(
    known: pd.DataFrame, scores: pd.DataFrame, strata: "Mapping[str, pd.Series[str]]", options: Mapping[str, Any]
) -> pd.DataFrame:
    """The statistics of an evaluation by an earlier version, from its scores; what only the file knows stays."""
    patient = options.get("patient")
    found = summarise(
        scores,
        strata,
        metrics=known["metric"].unique().tolist(),
        patient_of_case=None if patient is None else scores.drop_duplicates("case").set_index("case")[patient],
        n_resamples=options["n_resamples"],
        seed=options["seed"],
    )
    keys = ["attribute", "stratum", "label", "metric"]
    return found.merge(known[[*keys, *(c for c in known.columns if c not in found.columns)]], on=keys, how="left")


def _lesions(folder: Path) -> pd.DataFrame:
    """The lesions of an evaluation's folder; none where their file is gone, which no report needs."""
    path = folder / "lesions.csv"
    if not path.is_file():
        return pd.DataFrame()
    names = ("case", "label", "of", "matched_with")
    lesions = pd.read_csv(path, dtype=dict.fromkeys(names, "str"), keep_default_na=False, na_values=[""])
    return lesions.assign(matched_with=lesions["matched_with"].fillna(""))


def _table(records: list[dict[str, Any]], *, numbers: Collection[str] | None = None) -> pd.DataFrame:
    """A frame of rows."""
    table = pd.DataFrame(records)
    for column in table.columns:
        if column in _NAMES and not all(isinstance(value, str) for value in table[column]):
            raise TypeError(column)
        if column not in _NAMES if numbers is None else column in numbers:
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
            raise ValueError(f"`evaluations` must be NAME=FOLDER, got {entry!r}. Write, for example, ERM=results/erm.")
        if name in named:
            raise ValueError(f"`evaluations` must have different names, got {name_some([name])} twice. Rename one.")
        named[name] = Path(folder)
    return named


def named_trainings(entries: list[str]) -> dict[str, list[Path]]:
    """Methods and the folders of their trainings, from ``NAME=FOLDER`` or ``NAME=FOLDER,FOLDER,FOLDER``."""
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
