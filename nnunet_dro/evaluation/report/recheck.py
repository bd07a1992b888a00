"""Whether files say what follows from the scores: tables and verdicts, computed once more."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from nnunet_dro import __version__
from nnunet_dro.arrays import BoolArray
from nnunet_dro.evaluation.comparing.comparison import Comparison, compare
from nnunet_dro.evaluation.comparing.options import CompareOptions
from nnunet_dro.evaluation.judging.outcomes import check_requirements
from nnunet_dro.evaluation.judging.requirements import one_sided_of, parse_requirement
from nnunet_dro.evaluation.scoring.failures import DEFAULT_FAILURE
from nnunet_dro.evaluation.scoring.metrics import in_pixels
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise
from nnunet_dro.evaluation.stratifying.auto_columns import AUTO
from nnunet_dro.evaluation.stratifying.division import with_absent
from nnunet_dro.evaluation.stratifying.stratify import stratify_all

#: Differences up to this are rounding: relative, of numbers above 1.
_TOLERANCE = 1e-9

#: A number in a text, but for whole ones, which may be part of a name.
_DECIMAL = re.compile(r"(-?\d+\.\d+(?:e[-+]\d+)?|-?\d+e[-+]\d+)")

#: What tells a row of a table, and a verdict, from others.
_PLACE = ("attribute", "stratum", "label", "metric", "method")
_VERDICT = ("identifier", "requirement", *_PLACE)


def is_recorded(evaluation: Evaluation) -> bool:
    """Whether an evaluation has requirements, and has them as they were written."""
    records = evaluation.about["requirements"]
    return bool(records) and all("requirement" in record for record in records)


def check_evaluation(evaluation: Evaluation) -> None:
    """Check that strata and verdicts of an evaluation are those that its scores give.

    The columns of the case table and the requirements are taken as they are written.

    Raises:
        ValueError: If a stratum, a number or a verdict is another, or the requirements are not
            written down, as in evaluations of version 0.3.0 and before.
    """
    records = evaluation.about["requirements"]
    requirements = [parse_requirement(text) for text in _texts(records)]
    options = evaluation.options

    made_by = str(evaluation.about["versions"].get("nnunet-dro"))
    _check_strata(evaluation, made_by)
    statistics = summarise(
        evaluation.scores,
        evaluation.stratum_of_case,
        metrics=list(evaluation.metrics),
        patient_of_case=evaluation.patient_of_case,
        patient_score=options.patient_score,
        one_sided=one_sided_of(requirements),
        failure=options.failure or DEFAULT_FAILURE,
        n_resamples=options.n_resamples,
    )
    _check_tables(evaluation.strata, statistics, "strata.csv", made_by)

    absent = evaluation.about["inputs"].get("absent", {})
    judged = with_absent(statistics, absent)
    outcomes = check_requirements(judged, requirements, in_pixels=in_pixels(evaluation.scores))
    _check_verdicts(records, [outcome.record for outcome in outcomes], made_by)


def check_comparison(
    about: Mapping[str, Any],
    table: pd.DataFrame,
    evaluations: Mapping[str, Sequence[Evaluation]],
) -> Comparison:
    """Compare anew, and check that the table and the verdicts of a comparison are the same.

    Args:
        about: What its summary.json says of the run.
        table: comparison.csv.
        evaluations: The evaluations of each method's trainings, the baseline first.

    Returns:
        The comparison, made anew.

    Raises:
        ValueError: If a number or a verdict is another.
    """
    names = {field.name for field in fields(CompareOptions)}
    recorded = {name: value for name, value in about["options"].items() if name in names}
    recorded["by"] = about["inputs"]["by"]
    recorded["requirements"] = _texts(about["requirements"])
    comparison = compare(evaluations, CompareOptions(**recorded))

    made_by = str(about["versions"].get("nnunet-dro"))
    _check_tables(table, comparison.table, "comparison.csv", made_by)
    _check_verdicts(about["requirements"], comparison.about["requirements"], made_by)
    return comparison


def says_the_same(written: str, computed: str) -> bool:
    """Whether two texts are the same but for the rounding of numbers with a decimal point."""
    if written == computed:
        return True
    parts = [_DECIMAL.split(text) for text in (written, computed)]
    # Between texts, each at an even position, stand the numbers.
    if len(parts[0]) != len(parts[1]) or parts[0][::2] != parts[1][::2]:
        return False
    theirs, ours = (np.asarray(texts[1::2], dtype=np.float64) for texts in parts)
    return bool(np.allclose(theirs, ours, rtol=_TOLERANCE, atol=_TOLERANCE))


def _check_strata(evaluation: Evaluation, made_by: str) -> None:
    """Check that the cases are in the strata that their columns in scores.csv put them in.

    Attributes that were computed from images and label maps are taken as they are.
    """
    specs = [spec for spec in evaluation.options.by if AUTO not in spec]
    table = evaluation.case_table.reset_index()
    if not specs or not set(map(str, table.columns)) - {"case"}:
        return

    for attribute, computed in stratify_all(table, specs, table["case"].tolist()).items():
        written = evaluation.stratum_of_case.get(attribute)
        if written is None:
            continue
        differs = written.reindex(computed.index).astype(str) != computed.astype(str)
        for case in computed.index[differs][:1]:
            got = f"{case} in {attribute}={written.get(case)} in summary.json"
            raise _difference(got, f"{attribute}={computed[case]}", made_by)


def _texts(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The requirements as they were written, each once, in their order."""
    if any("requirement" not in record for record in records):
        raise ValueError(
            "`evaluation` must have its requirements as they were written, got verdicts only, of "
            "an earlier version. Evaluate again with this version of nnunet-dro."
        )
    requirements = dict.fromkeys(
        (record["identifier"], record["requirement"]) for record in records
    )
    return [text for _, text in requirements]


def _check_tables(written: pd.DataFrame, computed: pd.DataFrame, file: str, made_by: str) -> None:
    """Check that a table has the rows and the numbers that the scores give."""
    place = [name for name in _PLACE if name in computed]
    ours = computed[place].astype(str).to_numpy().tolist()
    theirs = written[place].astype(str).to_numpy().tolist()
    if ours != theirs:
        raise _difference(f"other rows in {file}", "another table", made_by)

    for column in computed.columns.difference(written.columns):
        raise _difference(f"no column {column} in {file}", "one", made_by)
    for column in written.columns.difference(computed.columns):
        raise _difference(f"a column {column} in {file}", "none", made_by)

    for column in computed.columns:
        agrees = _agree(computed[column], written[column])
        if agrees.all():
            continue
        position = int(np.flatnonzero(~agrees)[0])
        ours, theirs = (_shown(table[column].iloc[position]) for table in (computed, written))
        row = " ".join(str(computed[name].iloc[position]) for name in place)
        raise _difference(f"{column} {theirs} of {row} in {file}", ours, made_by)


def _agree(computed: "pd.Series[Any]", written: "pd.Series[Any]") -> BoolArray:
    """Where two columns say the same: numbers but for rounding, and text, such as verdicts."""
    if not is_numeric_dtype(computed):
        return np.asarray(computed.astype(str).to_numpy() == written.astype(str).to_numpy())
    values = computed.to_numpy(dtype=np.float64)
    in_file = pd.to_numeric(written, errors="coerce").to_numpy(dtype=np.float64)
    is_close = np.isclose(values, in_file, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)
    # What is no number is none that is undefined, either.
    return np.asarray(is_close & (np.isnan(in_file) == written.isna().to_numpy()))


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (int, float, np.number)) else repr(value)


def _check_verdicts(
    written: Sequence[Mapping[str, Any]], computed: Sequence[Mapping[str, Any]], made_by: str
) -> None:
    """Check that summary.json has the verdicts that the scores give."""
    records = {_place_of(record): record for record in computed}
    theirs = {_place_of(record): record for record in written}
    if set(records) != set(theirs):
        others = sorted(set(records) ^ set(theirs))
        got = f"other verdicts in summary.json, such as that on {others[0][1]!r}"
        raise _difference(got, "others", made_by)

    for place, record in records.items():
        for name, value in record.items():
            if not _is_same(value, theirs[place].get(name)):
                got = f"{name} {theirs[place].get(name)!r} in summary.json for {record['line']!r}"
                raise _difference(got, repr(value), made_by)


def _place_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(record.get(name)) for name in _VERDICT)


def _is_same(computed: Any, written: Any) -> bool:
    are_numbers = isinstance(computed, float) and isinstance(written, float)
    if are_numbers:
        return math.isclose(computed, written, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return bool(computed == written)


def _difference(got: str, computed: str, made_by: str) -> ValueError:
    """The error of a file that says something else than the scores."""
    cure = "Restore the files, or make them again."
    if made_by != __version__:
        cure = (
            f"The files are of nnunet-dro {made_by}, and {__version__} may compute some numbers in "
            "another way, which its CHANGELOG.md says. Verify them with that version, or make them "
            "again with this one."
        )
    return ValueError(
        f"`evaluation` must say what its scores give, got {got}, where they give {computed}. {cure}"
    )
