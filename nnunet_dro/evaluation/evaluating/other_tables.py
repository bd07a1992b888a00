"""Evaluations from the tables of other software.

The CSV that MIST writes, and the TSV of panoptica's aggregator.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.evaluating.read_results import FILES_READ, read_evaluation
from nnunet_dro.evaluation.scoring.instances import labels_with_lesions, lesion_metrics
from nnunet_dro.evaluation.scoring.metrics import METRICS, is_bounded
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.stratum_statistics import false_positives, summarise
from nnunet_dro.evaluation.statistics.worst_strata import worst_strata
from nnunet_dro.evaluation.stratifying.stratify import stratify_all
from nnunet_dro.files.case_table import EMPTY_ENTRIES, MISSING
from nnunet_dro.naming import count, name_some


@dataclass(frozen=True)
class _Software:
    """How a software writes its table."""

    name: str
    separator: str  # what stands between label and metric in the names of columns
    #: Its names of metrics and counts to ours, which are others where the definition is another.
    metrics: Mapping[str, str]
    #: The form of the names of further metrics, which are not read.
    further_metrics: str


#: The first column of a table, which names the cases, to the software that writes it.
_SOFTWARE = {
    "id": _Software(
        "MIST",
        separator="_",
        metrics={
            "dice": "dice",
            "haus95": "hd95_surface_mist",
            "surf_dice": "nsd_surface_mist",
            "avg_surf": "assd_surface_mist",
        },
        further_metrics=r"lesion_wise_\w+",
    ),
    "subject_name": _Software(
        "panoptica",
        separator="-",
        metrics={
            "global_bin_dsc": "dice",
            "global_bin_iou": "iou",
            "global_bin_hd": "hd",
            "global_bin_assd": "assd_directed_panoptica",
            "global_bin_hd95": "hd95_pooled",
            "global_bin_nsd": "nsd_directed_panoptica",
            "pq": "pq",
            "sq": "sq",
            "rq": "rq",
            "rec": "lesion_recall",
            "prec": "lesion_precision",
            # The names of version 1, then those of version 2.
            "num_ref_instances": "lesions_reference",
            "num_pred_instances": "lesions_predicted",
            "n_ref_instances": "lesions_reference",
            "n_pred_instances": "lesions_predicted",
            "tp": "lesions_found",
            "fp": "lesions_invented",
            "global_bin_volume_ref": "n_reference",
            "global_bin_volume_pred": "n_prediction",
        },
        further_metrics=r"[^-]+",
    ),
}

#: The names of the rows of statistics below the cases of MIST.
_STATISTICS = {"Mean", "Std", "25th Percentile", "Median", "75th Percentile"}

#: The name of the row of an instance, with its label, as panoptica lists them below each case.
_INSTANCE = re.compile(r".+-(.+)_inst_\d+")

#: What stands for no number. Names of cases and entries of strata may be such words.
_NO_NUMBER = EMPTY_ENTRIES | {"None", "none", "null", "NULL", "NAN"}


@dataclass(frozen=True)
class _Columns:
    """What the columns of a table are."""

    scores: Mapping[str, Mapping[str, str]]  # label to its columns, with our names of metrics
    attributes: Sequence[str]  # columns of text, by which the cases can be divided
    left_out: Sequence[str]  # the names of others, without the label


def read_scores(path: Path) -> Evaluation:
    """Read what `nnunet-dro evaluate` wrote, or a table of MIST or panoptica.

    Such a table has no strata, but its own columns of text are those of a case table. Infinite
    values are undefined. Metrics that the software defines in another way have names of their own;
    a note names the columns and rows that are not read.
    """
    if not path.is_file():
        return read_evaluation(path)

    rows, software = _read_table(path)
    columns = _columns(rows, software)
    table, rows_left_out = _cases(rows, software, list(columns.scores))
    scores = _scores(table, columns, path)
    # Metrics on lesions count for nothing in a table that does not say how many lesions there are.
    without_counts = [] if labels_with_lesions(scores) else lesion_metrics(scores.columns)
    scores = scores.drop(columns=without_counts)

    metrics = [name for name in METRICS if name in scores]
    if not metrics or table.empty:
        raise InputError(
            "evaluations",
            must="have cases with a known metric",
            got=f"none in {str(path)!r}",
            cure="Let it compute Dice, for example.",
        )

    stratum_of_case = stratify_all(None, [], table["case"].tolist())
    strata = summarise(scores, stratum_of_case, metrics=metrics, n_resamples=0)

    return Evaluation(
        method=path.stem,
        scores=scores,
        strata=strata,
        stratum_of_case=stratum_of_case,
        worst=worst_strata(strata),
        # Not every table tells what the references lack.
        false_positives=false_positives(scores.iloc[:0]),
        about={
            "options": {},
            "definitions": dict.fromkeys(metrics, f"as {software.name} defines it"),
            "inputs": {},
        },
        notes=tuple(_notes(software, metrics, columns.left_out, rows_left_out, without_counts)),
    )


def files_of_scores(path: Path) -> list[Path]:
    """The files that `read_scores` reads."""
    if path.is_file():
        return [path]
    files = [path / name for name in FILES_READ]
    return [file for file in files if file.is_file()]


def _notes(
    software: _Software,
    metrics: Sequence[str],
    columns: Sequence[str],
    rows: Sequence[str],
    without_counts: Sequence[str],
) -> Iterator[str]:
    """Whose the scores are, and which columns, rows and metrics of the table are left out."""
    yield f"These scores are {software.name}'s, by its own definitions."
    if software.name == "panoptica" and any(METRICS[name].unit == "mm" for name in metrics):
        yield "panoptica's distances are in mm only if it was told the voxel size (voxelspacing)."
    if columns:
        yield f"Columns of the table that are not read: {name_some(columns, at_most=20)}."
    if without_counts:
        names = name_some(without_counts, at_most=len(without_counts))
        yield f"Without numbers of the reference's lesions, these metrics are left out: {names}."
    if rows:
        names = name_some(rows)
        yield f"Left out as statistics or instances: {count(len(rows), 'row')} ({names})."


def _read_table(path: Path) -> tuple[pd.DataFrame, _Software]:
    """The rows of a table as text, with the column ``case``, and the software that wrote it."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            separator = "\t" if "\t" in file.readline() else ","
        # No text means a missing value here: a case may be called NA.
        table = pd.read_csv(path, sep=separator, dtype=str, na_filter=False)
        case_column, *others = map(str, table.columns)
        software = _SOFTWARE[case_column]
        if not isinstance(table.index, pd.RangeIndex):
            raise ValueError("its rows have more entries than its first one")
    except (ValueError, KeyError) as error:
        raise InputError(
            "evaluations",
            must="be tables of MIST or panoptica",
            got=repr(str(path)),
            cure=(
                "Give the folder that `nnunet-dro evaluate` wrote, or such a table as its software "
                "wrote it."
            ),
        ) from error

    taken = sorted({"case", "label", *METRICS} & set(others))
    if taken:
        raise InputError(
            "evaluations",
            must="leave names of metrics, `case` and `label` free",
            got=f"a column {taken[0]} in {str(path)!r}",
            cure="Rename it.",
        )

    table = table.fillna("").rename(columns={case_column: "case"})
    # Spreadsheets leave behind rows of separators.
    table = table[(table != "").any(axis="columns")]
    if (table["case"] == "").any():
        raise ValueError(
            f"`evaluations` must name every case, got an empty {case_column} in {str(path)!r}. "
            "Fill it in, or remove the row."
        )
    return table.reset_index(drop=True), software


def _columns(table: pd.DataFrame, software: _Software) -> _Columns:
    """What the columns of a table are.

    The label is the shortest that leaves a metric: WT_lesion_wise_dice is a metric of WT.
    """
    metrics = "|".join(software.metrics)
    form = re.compile(
        rf"(?P<label>.+?){software.separator}"
        rf"(?:(?P<metric>{metrics})|(?P<further>{software.further_metrics}))"
    )
    scores: dict[str, dict[str, str]] = {}
    attributes = []
    left_out = []
    for column in table.columns.drop("case"):
        match = form.fullmatch(str(column))
        if match and match["metric"]:
            columns_of_label = scores.setdefault(match["label"], {})
            columns_of_label[column] = software.metrics[match["metric"]]
        elif match:
            left_out.append(match["further"])
        elif _numbers(table[column])[1].any():
            attributes.append(column)
        else:
            left_out.append(column)
    return _Columns(scores, attributes, list(dict.fromkeys(left_out)))


def _cases(
    table: pd.DataFrame, software: _Software, labels: Sequence[str]
) -> tuple[pd.DataFrame, list[str]]:
    """The rows of cases, and the names of the others.

    Those are what each software writes in addition, and no case of the other that has such a name.
    """
    names = table["case"]
    if software.name == "MIST":
        # They stand below the cases, one of which may be called Median.
        is_statistic = names.isin(_STATISTICS)
        is_other = is_statistic[::-1].cummin()[::-1]
    else:
        label_of_row = names.str.extract(rf"^{_INSTANCE.pattern}$", expand=False)
        is_other = label_of_row.isin(labels)
    return table[~is_other].reset_index(drop=True), list(names[is_other])


def _scores(table: pd.DataFrame, columns: _Columns, path: Path) -> pd.DataFrame:
    """A row per case and label, with our names of metrics, and the columns of text."""
    texts = table[list(columns.attributes)].apply(lambda column: column.str.strip())
    attributes = texts.mask(texts.isin(EMPTY_ENTRIES), MISSING)

    frames = []
    for label, names in columns.scores.items():
        values = {name: _score_column(table, column, name, path) for column, name in names.items()}
        keys = table[["case"]].assign(label=label)
        frames.append(pd.concat([keys, pd.DataFrame(values), attributes], axis=1))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _score_column(table: pd.DataFrame, column: str, name: str, path: Path) -> "pd.Series[float]":
    """The values of a metric or count; NaN where there is none, or where it is infinite."""
    values, is_text = _numbers(table[column])
    if is_text.any():
        case, entry = table.loc[is_text, ["case", column]].iloc[0]
        raise ValueError(
            f"`{column}` must be numbers, got {entry!r} for {case!r} in {str(path)!r}. "
            "Write numbers with a point, and nothing where there is none."
        )

    values = values.replace([np.inf, -np.inf], np.nan)
    if not is_bounded(name):
        return values

    is_fraction = values.isna() | values.between(-1e-6, 1 + 1e-6)
    if not is_fraction.all():
        raise InputError(
            name,
            must="be between 0 and 1",
            got=f"others in {column} of {str(path)!r}",
            cure="Write fractions, not per cent.",
        )
    return values.clip(0, 1)


def _numbers(entries: "pd.Series[str]") -> tuple["pd.Series[float]", "pd.Series[bool]"]:
    """The numbers of a column, and which of its entries are other text."""
    numbers = pd.to_numeric(entries, errors="coerce").astype(np.float64)
    is_text = numbers.isna() & ~entries.str.strip().isin(_NO_NUMBER)
    return numbers, is_text
