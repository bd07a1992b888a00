"""What stands in the files of an evaluation or a comparison; `read_results` reads them again."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.judging.verdict_files import VERDICT_FILES, verdict_files
from nnunet_dro.evaluation.scoring.instances import LESION_COUNTS
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.stratum_statistics import percentile_notes
from nnunet_dro.files.exact_csv import csv_text
from nnunet_dro.files.json_file import json_records, json_text
from nnunet_dro.files.output_folder import sha256_of_text

#: The name of the format of summary.json; its number changes with the format.
FORMAT = "nnunet-dro evaluation 2"
#: What the name of every format of a comparison begins with.
COMPARISON_FORMATS = "nnunet-dro comparison "
COMPARISON_FORMAT = f"{COMPARISON_FORMATS}2"

#: The tables that are written only where lesions were compared.
OF_LESIONS = ("lesions.csv", "lesion_sizes.csv")

#: All tables and verdicts that an evaluation or a comparison may have; those that a new one lacks
#: do not stay in its folder.
TABLES = (
    "scores.csv",
    "strata.csv",
    *OF_LESIONS,
    "comparison.csv",
    "changed.csv",
    "failures.csv",
    "trainings.csv",
    *VERDICT_FILES,
)

#: The page of the worst cases in three planes, which `report` writes beside the tables.
VIEWER_PAGE = "cases.html"


def evaluation_files(evaluation: Evaluation) -> dict[str, str]:
    """The tables of an evaluation, name to content; undefined values are empty, or null."""
    # Whole numbers, although the labels whose lesions are not compared have none.
    counts = [name for name in LESION_COUNTS if name in evaluation.scores.columns]
    tables = {
        "scores.csv": evaluation.scores.astype(dict.fromkeys(counts, "Int64")),
        "strata.csv": evaluation.strata,
    }
    if evaluation.options.instances:
        lesion_tables = zip(OF_LESIONS, (evaluation.lesions, evaluation.lesion_sizes), strict=True)
        tables |= {name: table for name, table in lesion_tables if len(table.columns)}

    files = {name: csv_text(table) for name, table in tables.items()}
    summary = {
        "format": FORMAT,
        "method": evaluation.method,
        **evaluation.about,
        "tables_sha256": {name: sha256_of_text(text) for name, text in files.items()},
        "notes": [*evaluation.notes, *percentile_notes(evaluation.strata)],
        "worst": json_records(evaluation.worst),
        "equity": json_records(evaluation.equity),
        "false_positives": json_records(evaluation.false_positives),
        "stratum_of_case": _strata_entries(evaluation.stratum_of_case),
    }
    files["summary.json"] = json_text(summary)
    records = evaluation.about.get("requirements", ())
    return files | verdict_files(evaluation.method, records)


def _strata_entries(stratum_of_case: "Mapping[str, pd.Series[str]]") -> dict[str, Any]:
    """Attribute to its strata in their order, and the stratum of each case."""
    entries = {}
    for attribute, strata in stratum_of_case.items():
        entries[attribute] = {
            "order": [str(stratum) for stratum in strata.cat.categories],
            "cases": strata.astype(str).to_dict(),
        }
    return entries


def comparison_files(comparison: Comparison) -> dict[str, str]:
    """The tables of a comparison, name to content.

    changed.csv has the cases that changed most, failures.csv all that failed.
    """
    tables = {
        "comparison.csv": comparison.table,
        "changed.csv": comparison.changed,
        "failures.csv": comparison.failures,
    }
    if comparison.trainings is not None:
        tables["trainings.csv"] = comparison.trainings

    files = {name: csv_text(table) for name, table in tables.items()}
    summary = {
        "format": COMPARISON_FORMAT,
        "methods": list(comparison.methods),
        "about": comparison.about,
        "notes": list(comparison.notes),
    }
    files["summary.json"] = json_text(summary)
    baseline, *others = comparison.methods
    name = f"{', '.join(others)} against {baseline}"
    return files | verdict_files(name, comparison.about["requirements"])
