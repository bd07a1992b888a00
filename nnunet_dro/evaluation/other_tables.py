"""Evaluations from the tables of other software.

The CSV that MIST writes, and the TSV of panoptica's aggregator.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.result_files import read_evaluation
from nnunet_dro.evaluation.scoring.metrics import METRICS, is_bounded
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise
from nnunet_dro.evaluation.statistics.worst_strata import worst_strata
from nnunet_dro.evaluation.stratifying.stratify import ALL


@dataclass(frozen=True)
class _Software:
    """How a software writes its table."""

    name: str
    separator: str  # what stands between label and metric in the names of columns
    metrics: Mapping[str, str]  # its names of metrics and counts to ours


#: The first column of a table, which names the cases, to the software that writes it.
_SOFTWARE = {
    "id": _Software(
        "MIST",
        separator="_",
        metrics={
            "dice": "dice",
            "haus95": "hd95",
            "surf_dice": "nsd",
            "avg_surf": "assd",
        },
    ),
    "subject_name": _Software(
        "panoptica",
        separator="-",
        metrics={
            "global_bin_dsc": "dice",
            "global_bin_iou": "iou",
            "global_bin_hd": "hd",
            "global_bin_assd": "assd",
            "global_bin_hd95": "hd95_pooled",
            "global_bin_nsd": "nsd",
            "pq": "pq",
            "sq": "sq",
            "rq": "rq",
            "rec": "lesion_recall",
            "prec": "lesion_precision",
            "num_ref_instances": "lesions_reference",
            "tp": "lesions_found",
            "num_pred_instances": "lesions_predicted",
            "fp": "lesions_invented",
            "global_bin_volume_ref": "n_reference",
            "global_bin_volume_pred": "n_prediction",
        },
    ),
}

#: Rows that are no cases: the statistics below MIST's table, and the instances that panoptica lists
#: between its cases.
_NO_CASE = re.compile(r"Mean|Std|25th Percentile|Median|75th Percentile|.+-.+_inst_\d+")


def read_scores(path: Path) -> Evaluation:
    """Read what `nnunet-dro evaluate` wrote, or a table of MIST or panoptica.

    Such a table has no strata, but its own columns of text are those of a case table. Infinite
    values are undefined.
    """
    if not path.is_file():
        return read_evaluation(path)

    table, software = _read_table(path)
    scores = _scores(table, software, path)
    metrics = [name for name in METRICS if name in scores]
    if not metrics or table.empty:
        cure = "Let it compute Dice, for example."
        raise ValueError(
            f"`evaluations` must have cases with a known metric, got none in {str(path)!r}. {cure}"
        )

    cases = pd.Index(table["case"], name="case")
    all_cases = pd.Categorical([ALL] * len(cases), ordered=True)
    stratum_of_case = {ALL: pd.Series(all_cases, index=cases, name=ALL)}
    strata = summarise(scores, stratum_of_case, metrics=metrics, n_resamples=0)
    return Evaluation(
        method=path.stem,
        scores=scores,
        strata=strata,
        stratum_of_case=stratum_of_case,
        worst=worst_strata(strata),
        false_positives=pd.DataFrame(),
        about={
            "options": {},
            "definitions": dict.fromkeys(metrics, f"as {software.name} defines it"),
            "inputs": {},
        },
        notes=(f"These scores are {software.name}'s, by its own definitions.",),
    )


def _read_table(path: Path) -> tuple[pd.DataFrame, _Software]:
    """A row per case, with the column ``case``, and the software that wrote the table."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            separator = "\t" if "\t" in file.readline() else ","
        table = pd.read_csv(path, sep=separator, dtype={"id": str, "subject_name": str})
        case_column, *others = map(str, table.columns)
        software = _SOFTWARE[case_column]
    except (ValueError, KeyError) as error:
        cure = (
            "Give the folder that `nnunet-dro evaluate` wrote, "
            "or such a table as its software wrote it."
        )
        raise ValueError(
            f"`evaluations` must be tables of MIST or panoptica, got {str(path)!r}. {cure}"
        ) from error

    taken = sorted({"case", "label", *METRICS} & set(others))
    if taken:
        got = f"a column {taken[0]} in {str(path)!r}"
        raise ValueError(
            "`evaluations` must leave names of metrics, `case` and `label` free, "
            f"got {got}. Rename it."
        )
    table = table.rename(columns={case_column: "case"}).dropna(subset="case")
    is_no_case = table["case"].str.fullmatch(_NO_CASE)
    return table[~is_no_case].reset_index(drop=True), software


def _scores(table: pd.DataFrame, software: _Software, path: Path) -> pd.DataFrame:
    """A row per case and label, with our names of metrics, and the columns of text."""
    columns_of_labels = _columns_of_labels(table, software)
    score_columns = {column for columns in columns_of_labels.values() for column in columns}
    texts = table.select_dtypes(exclude="number")
    attributes = [name for name in texts if name != "case" and name not in score_columns]

    frames = []
    for label, columns in columns_of_labels.items():
        values = table[list(columns)].rename(columns=columns)
        values = values.apply(pd.to_numeric, errors="coerce")
        values = values.replace([np.inf, -np.inf], np.nan)
        for name in filter(is_bounded, values):
            is_fraction = values[name].isna() | values[name].between(-1e-6, 1 + 1e-6)
            if not is_fraction.all():
                got = f"others for {label} in {str(path)!r}"
                raise ValueError(
                    f"`{name}` must be between 0 and 1, got {got}. Write fractions, not per cent."
                )
            values[name] = values[name].clip(0, 1)

        keys = table[["case"]].assign(label=label)
        frames.append(pd.concat([keys, values, table[attributes]], axis=1))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _columns_of_labels(table: pd.DataFrame, software: _Software) -> dict[str, dict[str, str]]:
    """Label to its columns, with our names of their metrics."""
    metrics = "|".join(software.metrics)
    form = re.compile(rf"(.+?){software.separator}({metrics})")

    columns: dict[str, dict[str, str]] = defaultdict(dict)
    for column in table.columns:
        match = form.fullmatch(str(column))
        if match:
            label, metric = match.groups()
            columns[label][column] = software.metrics[metric]
    return columns
