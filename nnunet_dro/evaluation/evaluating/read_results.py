"""An evaluation, or what a comparison wrote, read again from its files."""

import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from nnunet_dro.bad_input import InputError, bad_input
from nnunet_dro.evaluation.evaluating.result_files import (
    COMPARISON_FORMAT,
    COMPARISON_FORMATS,
    FORMAT,
    OF_LESIONS,
)
from nnunet_dro.evaluation.inputs.options import EvaluateOptions
from nnunet_dro.evaluation.scoring.failures import DEFAULT_FAILURE
from nnunet_dro.evaluation.scoring.score_files import sha256_of
from nnunet_dro.evaluation.scoring.scoring import NUMBERS
from nnunet_dro.evaluation.statistics.columns import COUNTS, GUARANTEED, STATISTICS
from nnunet_dro.evaluation.statistics.evaluation_result import STATISTICS_DEFINED, Evaluation
from nnunet_dro.evaluation.statistics.stratum_statistics import percentile_notes, summarise
from nnunet_dro.evaluation.statistics.worst_strata import worst_strata
from nnunet_dro.files.exact_csv import read_exact
from nnunet_dro.files.json_file import read_json

#: That of version 0.2, which had the tables once more in summary.json.
_FORMAT_WITH_TABLES = "nnunet-dro evaluation 1"

#: The files of an evaluation that are read; no report needs every lesion.
FILES_READ = ("summary.json", "scores.csv", "strata.csv", OF_LESIONS[1])

#: The columns that are names, in every table.
_NAMES = (
    "attribute",
    "stratum",
    "label",
    "metric",
    "baseline",
    "method",
    "margin",
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


def read_evaluation(folder: Path) -> Evaluation:
    """Read what `nnunet-dro evaluate` wrote.

    Args:
        folder: Its output folder.

    Returns:
        The evaluation.

    Raises:
        FileNotFoundError: If there is no summary.json in the folder.
        ValueError: If that file is not the summary of an evaluation, or a table is not the one that
            was written.
    """
    path = folder / "summary.json"
    _check_file(path, "evaluation", command="evaluate")
    cure = "Evaluate again with this version of nnunet-dro."
    # Pandas warns where it makes something of rows that are none.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            summary = read_json(path, errors="surrogateescape")
            file_format = summary["format"]
            if str(file_format).startswith(COMPARISON_FORMATS):
                cure = (
                    "Give the folder of one evaluation; "
                    "`nnunet-dro compare --overwrite` makes a comparison again."
                )
            if file_format not in (FORMAT, _FORMAT_WITH_TABLES):
                raise ValueError(file_format)
            changed = _changed_tables(summary, folder)
            if not changed:
                return _parsed(summary, folder)
        except (ValueError, KeyError, TypeError, AttributeError, Warning) as error:
            raise InputError(
                "evaluation",
                must="hold a summary.json of nnunet-dro",
                got=f"{str(path)!r}, which is not one",
                cure=cure,
            ) from error

    raise InputError(
        "evaluation",
        must="hold its tables as written",
        got=f"another {changed[0]}, or none, in {str(folder)!r}",
        cure="Restore the file, or evaluate again.",
    )


def read_comparison(folder: Path) -> tuple[dict[str, Any], pd.DataFrame]:
    """Read what `nnunet-dro compare` wrote: its summary.json, and comparison.csv.

    Raises:
        FileNotFoundError: If one of the two files is missing.
        ValueError: If summary.json is not that of a comparison.
    """
    for name in ("summary.json", "comparison.csv"):
        _check_file(folder / name, "comparison", command="compare")
    try:
        summary = read_json(folder / "summary.json", errors="surrogateescape")
        if summary["format"] != COMPARISON_FORMAT:
            raise ValueError(summary["format"])
        return summary, _table("comparison", _read_csv(folder / "comparison.csv"))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            "comparison",
            must="hold the files of a comparison",
            got=repr(str(folder)),
            cure="Compare again with this version of nnunet-dro.",
        ) from error


def _check_file(path: Path, option: str, *, command: str) -> None:
    if not path.is_file():
        raise FileNotFoundError(
            bad_input(
                option,
                must=f"be a folder with a {path.name}",
                got=repr(str(path.parent)),
                cure=f"Give the folder that `nnunet-dro {command}` wrote.",
            )
        )


def _changed_tables(summary: Mapping[str, Any], folder: Path) -> list[str]:
    """The tables that are missing or are not those that were written with a summary.json."""
    if summary["format"] != FORMAT:
        return []

    changed = []
    for name, sha256 in summary["tables_sha256"].items():
        # No report needs the lesions.
        if name == OF_LESIONS[0]:
            continue
        path = folder / name
        if not path.is_file() or sha256_of(path) != sha256:
            changed.append(name)
    return changed


def _parsed(summary: Mapping[str, Any], folder: Path) -> Evaluation:
    """The evaluation that a summary.json and the tables beside it tell of."""
    options = summary["options"]
    tables = _parsed_tables(summary, folder)
    stratum_of_case = {}
    for attribute, entry in summary["stratum_of_case"].items():
        kind = pd.CategoricalDtype(entry["order"], ordered=True)
        stratum_of_case[attribute] = pd.Series(entry["cases"], dtype=object).astype(kind)

    strata = tables.pop("strata")
    guaranteed = summary["definitions"].get("guaranteed")
    is_current = guaranteed == STATISTICS_DEFINED["guaranteed"]
    if not is_current or not {*COUNTS, *GUARANTEED} <= set(strata.columns):
        strata = _described_anew(strata, tables["scores"], stratum_of_case, options)

    names = ("versions", "options", "definitions", "inputs", "requirements")
    about = {name: summary[name] for name in names}
    if "protocol" in summary:
        about["protocol"] = summary["protocol"]

    return Evaluation(
        method=summary["method"],
        strata=strata,
        stratum_of_case=stratum_of_case,
        # Where no value is defined there is no row, and the file does not tell the columns.
        worst=worst_strata(strata, reference=options.get("reference_stratum")),
        about=about,
        # Those on percentiles follow from the strata.
        notes=tuple(note for note in summary["notes"] if note not in percentile_notes(strata)),
        **tables,
    )


def _parsed_tables(summary: Mapping[str, Any], folder: Path) -> dict[str, pd.DataFrame]:
    """The tables by name: those of the folder, or of a summary.json that has them itself."""
    false_positives = pd.DataFrame(summary["false_positives"])
    tables = {"false_positives": _table("false_positives", false_positives)}

    names = ["scores", "strata"]
    if summary["options"].get("instances"):
        names += ["lesions", "lesion_sizes"]
    for name in names:
        path = folder / f"{name}.csv"
        if name in summary:
            tables[name] = _table(name, pd.DataFrame(summary[name]))
        # No report needs the lesions.
        elif name != "lesions" or path.is_file():
            _check_file(path, "evaluation", command="evaluate")
            tables[name] = _table(name, _read_csv(path))

    for name, columns in _NEEDED.items():
        lacking = set(columns) - set(tables[name].columns)
        if lacking:
            raise KeyError(*lacking)
    return tables


def _described_anew(
    strata: pd.DataFrame,
    scores: pd.DataFrame,
    stratum_of_case: "Mapping[str, pd.Series[str]]",
    options: Mapping[str, Any],
) -> pd.DataFrame:
    """The statistics of an evaluation by an earlier version, from its scores.

    What only the file has stays.
    """
    recorded = EvaluateOptions.of(options)
    patient_of_case = None
    if recorded.patient is not None:
        patient_of_case = scores.drop_duplicates("case").set_index("case")[recorded.patient]

    statistics = summarise(
        scores,
        stratum_of_case,
        metrics=strata["metric"].unique().tolist(),
        patient_of_case=patient_of_case,
        patient_score=recorded.patient_score,
        failure=recorded.failure or DEFAULT_FAILURE,
        n_resamples=recorded.n_resamples,
    )
    keys = ["attribute", "stratum", "label", "metric"]
    others = [name for name in strata.columns if name not in statistics.columns]
    return statistics.merge(strata[[*keys, *others]], on=keys, how="left")


def _read_csv(path: Path) -> pd.DataFrame:
    return read_exact(path, partial(_is_name, path.stem))


def _is_name(table: str, column: str) -> bool:
    """Whether a column has names; what the case table adds to the scores are names, too."""
    if table == "scores":
        return column not in NUMBERS
    return column in _NAMES


def _table(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """A table with numbers where numbers must be, and texts where names must be."""
    for column in table.columns:
        values = table[column]
        is_number = pd.api.types.is_numeric_dtype(values)
        kind = pd.api.types.infer_dtype(values, skipna=False)
        if column in _NAMES and kind not in ("string", "empty"):
            raise TypeError(column)
        if not _is_name(name, column) and not is_number:
            table[column] = pd.to_numeric(values)
        if not is_number and values.isna().all():
            # A column without any value would be read as text.
            table[column] = values.astype(float)
    return table
