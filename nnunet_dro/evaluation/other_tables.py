"""Evaluations from the tables of other software.

The CSV that MIST writes, and the TSV of panoptica's aggregator.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.result_files import read_evaluation
from nnunet_dro.evaluation.scoring.metrics import METRICS, is_bounded
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise
from nnunet_dro.evaluation.statistics.worst_strata import worst_strata
from nnunet_dro.evaluation.stratifying.stratify import ALL

#: The column that names the cases to the software, what stands between label and metric, and its
#: names for ours.
_SOFTWARE = {
    "id": ("MIST", "_", {"dice": "dice", "haus95": "hd95", "surf_dice": "nsd", "avg_surf": "assd"}),
    "subject_name": (
        "panoptica",
        "-",
        {
            **{
                "global_bin_dsc": "dice",
                "global_bin_iou": "iou",
                "global_bin_hd": "hd",
                "global_bin_assd": "assd",
            },
            **{
                "global_bin_hd95": "hd95_pooled",
                "global_bin_nsd": "nsd",
                "pq": "pq",
                "sq": "sq",
                "rq": "rq",
            },
            **{
                "rec": "lesion_recall",
                "prec": "lesion_precision",
                "num_ref_instances": "lesions_reference",
            },
            **{
                "tp": "lesions_found",
                "num_pred_instances": "lesions_predicted",
                "fp": "lesions_invented",
            },
            **{"global_bin_volume_ref": "n_reference", "global_bin_volume_pred": "n_prediction"},
        },
    ),
}

#: Rows that are no cases: the statistics below MIST's table, and the instances that panoptica lists
#: between its cases.
_NO_CASE = re.compile(r"Mean|Std|25th Percentile|Median|75th Percentile|.+-.+_inst_\d+")


def read_scores(path: Path) -> Evaluation:
    """Read scores of `nnunet-dro evaluate`, or a table of MIST or panoptica.

    Infinite values are undefined.
    """
    if not path.is_file():
        return read_evaluation(path)
    try:
        with path.open(encoding="utf-8-sig") as file:
            separator = "\t" if "\t" in file.readline() else ","
        table = pd.read_csv(path, sep=separator, dtype={"id": str, "subject_name": str})
        software, between, names = _SOFTWARE[str(table.columns[0])]
    except (ValueError, KeyError) as error:
        cure = "Give the folder that `nnunet-dro evaluate` wrote, or such a table as its software wrote it."
        raise ValueError(
            f"`evaluations` must be tables of MIST or panoptica, got {str(path)!r}. {cure}"
        ) from error
    if taken := sorted({"case", "label", *METRICS} & {str(column) for column in table.columns[1:]}):
        got = f"a column {taken[0]} in {str(path)!r}"
        raise ValueError(
            f"`evaluations` must leave names of metrics, `case` and `label` free, got {got}. Rename it."
        )
    table = table.rename(columns={table.columns[0]: "case"}).dropna(subset="case")
    table = table[~table["case"].str.fullmatch(_NO_CASE)].reset_index(drop=True)
    form = re.compile(rf"(.+?){between}({'|'.join(names)})")
    columns = {column: found for column in table.columns if (found := form.fullmatch(str(column)))}
    attributes = [
        c for c in table.select_dtypes(exclude="number") if c != "case" and c not in columns
    ]
    of_labels = []
    for label in dict.fromkeys(found[1] for found in columns.values()):
        own = {column: names[found[2]] for column, found in columns.items() if found[1] == label}
        values = table[list(own)].rename(columns=own).apply(pd.to_numeric, errors="coerce")
        values = values.replace([np.inf, -np.inf], np.nan)
        for name in filter(is_bounded, values):
            if not (values[name].isna() | values[name].between(-1e-6, 1 + 1e-6)).all():
                got = f"others for {label} in {str(path)!r}"
                raise ValueError(
                    f"`{name}` must be between 0 and 1, got {got}. Write fractions, not per cent."
                )
            values[name] = values[name].clip(0, 1)
        keys = table[["case"]].assign(label=label)
        of_labels.append(pd.concat([keys, values, table[attributes]], axis=1))
    metrics = [name for name in METRICS if any(name in of_label for of_label in of_labels)]
    if not metrics or table.empty:
        cure = "Let it compute Dice, for example."
        raise ValueError(
            f"`evaluations` must have cases with a known metric, got none in {str(path)!r}. {cure}"
        )
    scores = pd.concat(of_labels, ignore_index=True)
    cases = pd.Index(table["case"], name="case")
    everybody = pd.Series(pd.Categorical([ALL] * len(cases), ordered=True), index=cases, name=ALL)
    strata = summarise(scores, {ALL: everybody}, metrics=metrics, n_resamples=0)
    return Evaluation(
        method=path.stem,
        scores=scores,
        strata=strata,
        stratum_of_case={ALL: everybody},
        worst=worst_strata(strata),
        false_positives=pd.DataFrame(),
        about={
            "options": {},
            "definitions": dict.fromkeys(metrics, f"as {software} defines it"),
            "inputs": {},
        },
        notes=(f"These scores are {software}'s, by its own definitions.",),
    )
