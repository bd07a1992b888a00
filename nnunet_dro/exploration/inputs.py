"""What an exploration takes from an evaluation.

Attributes that divide the cases, their patients and their scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.comparing.common_ground import CommonGround, case_table_of, check_rows
from nnunet_dro.evaluation.comparing.one_sided import method_values, worst_values
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.stratifying.stratify import (
    ALL,
    Part,
    divide,
    has_many_numbers,
    parse_by,
    stratify,
)
from nnunet_dro.exploration.rank_sums import BoolArray, FloatArray
from nnunet_dro.exploration.search import Attribute
from nnunet_dro.files.case_table import attributes_of, read_cases_of
from nnunet_dro.naming import count, name_some

_COMPUTED = "auto:"  # What `--by auto:size` and the like begin with.


def find_attributes(
    evaluation: Evaluation,
    cases: Sequence[str],
    *,
    by: Sequence[str] | None = None,
    table: Path | None = None,
    min_cases: int = 1,
) -> tuple[list[Attribute], list[str]]:
    """The attributes to combine, and notes.

    Intersections are taken apart, many numbers cut into thirds.
    """
    known = case_table_of(evaluation, cases)
    patient = evaluation.options.patient
    given = read_cases_of(table, cases) if table else known[["case"]]
    new = [name for name in attributes_of(given) if name not in known.columns]
    entries = given.set_index("case").loc[known["case"]]
    for name in (name for name in attributes_of(given) if name not in new):
        before, now = (frame[name].to_numpy(dtype=object) for frame in (known, entries))
        # A number may be written in another way; other text is no number, and unequal.
        differ = (before != now) & (
            pd.to_numeric(before, errors="coerce") != pd.to_numeric(now, errors="coerce")
        )
        if differ.any():
            at = int(differ.argmax())
            got = f"{now[at]!r} for {before[at]!r} in {name!r} of {known['case'].iloc[at]!r}"
            must = "have the entries that the evaluation was made with, or new columns"
            raise ValueError(f"`cases` must {must}, got {got}. Evaluate again with this table.")
    wide = known.merge(given[["case", *new]], on="case", how="left")
    strata: dict[str, pd.Series[str]] = {}
    notes: list[str] = []
    for spec in _specs_of(evaluation, wide) if by is None else by:
        if spec in evaluation.stratum_of_case and ("," not in spec or spec in wide.columns):
            strata.setdefault(spec, evaluation.stratum_of_case[spec])
            continue
        for part in parse_by(spec, [str(column) for column in wide.columns]):
            is_plain = part.column.startswith(_COMPUTED) and not part.edges and not part.n_quantiles
            _add(strata, notes, wide, part, in_thirds=is_plain)
    used = {_column(name, wide) for name in strata} | {patient}
    for column in attributes_of(given) if by is None else ():
        if column not in used:
            _add(strata, notes, wide, Part(column), in_thirds=True)
    return _usable(strata, cases, min_cases, notes), notes


def _usable(
    strata: "Mapping[str, pd.Series[str]]", cases: Sequence[str], min_cases: int, notes: list[str]
) -> list[Attribute]:
    """The attributes that divide the cases and have a stratum that is large enough.

    Notes on the others are added.
    """
    large: list[Attribute] = []
    small: list[Attribute] = []
    constant: list[str] = []
    for name, of_case in strata.items():
        codes, names = divide(of_case, cases, attribute=name)
        if len(names) < 2:
            constant.append(name)
            continue
        enough = np.bincount(codes).max() >= min_cases
        (large if enough else small).append(
            Attribute(name, codes, tuple(str(stratum) for stratum in names))
        )
    if not large and not small:
        got = f"only {name_some(constant)}, which is the same in all" if constant else "none"
        cure = "Evaluate with --by, or name a case table with --cases."
        raise ValueError(f"`by` must name attributes that divide the cases, got {got}. {cure}")
    if constant:
        notes.append(f"Left out, because it is the same in all cases: {name_some(constant)}.")
    if small and large:
        left_out = name_some([attribute.name for attribute in small])
        notes.append(f"Left out, because no stratum has {min_cases} cases: {left_out}.")
    scarce = [
        f"{stratum} ({n}) of {attribute.name}"
        for attribute in large
        for stratum, n in zip(attribute.strata, np.bincount(attribute.codes), strict=True)
        if n < min_cases
    ]
    if scarce:
        notes.append(f"Too few cases to be looked at, fewer than {min_cases}: {name_some(scarce)}.")
    # Without a large one, the search says that there are too few cases.
    return large or small


def _specs_of(evaluation: Evaluation, table: pd.DataFrame) -> list[str]:
    """The attributes of the evaluation, intersections as the columns and cuts that they were asked for by."""
    specs = [name for name in evaluation.stratum_of_case if name != ALL]
    intersections = [name for name in specs if "," in name and name not in table.columns]
    single = [name for name in specs if name not in intersections]
    covered = {_column(name, table) for name in single}
    for name in intersections:
        spec = next(
            (s for s in evaluation.options.by if _columns_in(s, table) == name.split(",")), name
        )
        for part in parse_by(spec, [str(column) for column in table.columns]):
            if part.column not in covered:
                covered.add(part.column)
                single.append(_written(part))
    return single


def _columns_in(spec: str, table: pd.DataFrame) -> list[str]:
    try:
        return [part.column for part in parse_by(spec, [str(column) for column in table.columns])]
    except ValueError:
        return []


def _written(part: Part) -> str:
    cut = f"q{part.n_quantiles}" if part.n_quantiles else ",".join(part.edges)
    return f"{part.column}:{cut}" if cut else part.column


def _column(attribute: str, table: pd.DataFrame) -> str:
    """The column of an attribute, which may be named after its cut."""
    return attribute if attribute in table.columns else attribute.rpartition(":")[0]


def _add(
    strata: "dict[str, pd.Series[str]]",
    notes: list[str],
    table: pd.DataFrame,
    part: Part,
    *,
    in_thirds: bool,
) -> None:
    """Add the strata of a column, in thirds if wanted and it has many numbers."""
    if in_thirds and has_many_numbers(table[part.column].tolist()):
        part = Part(part.column, n_quantiles=3)
    spec = _written(part)
    attribute, of_case = stratify(table, spec)
    if attribute in strata:
        attribute = spec
    if attribute in strata:
        return
    strata[attribute] = of_case.rename(attribute)
    if in_thirds and part.n_quantiles:
        thirds = "; ".join(str(stratum) for stratum in of_case.cat.categories)
        notes.append(f"{attribute} is cut into thirds of the cases: {thirds}.")


@dataclass(frozen=True, eq=False)
class LabelScores:
    """The scores of one label, where a label that was missed or invented is the worst.

    Arrays of shape (n_cases,).
    """

    label: str
    values: FloatArray  # the metric; NaN where undefined
    failed: BoolArray  # whether it is undefined because the label was missed or invented
    goodness: FloatArray  # larger is better: -inf where failed, NaN where the case does not count
    filled: (
        FloatArray  # the metric, where failed 0 or the largest distance of any case for the label
    )


def label_scores(
    evaluation: Evaluation, cases: Sequence[str], metric: str, labels: Sequence[str]
) -> tuple[list[LabelScores], list[str]]:
    """The scores of some labels, and notes on those that are undefined."""
    check_rows(evaluation.scores)
    ground = CommonGround(tuple(cases), tuple(labels), (metric,), ())
    known = METRICS[metric]
    of_all = method_values(evaluation, ground, metric)
    if np.isinf(of_all.values).any():
        case, label = np.argwhere(np.isinf(of_all.values))[0]
        got = f"an infinite one for {cases[case]!r}, {labels[label]!r}"
        raise ValueError(f"`scores` must be finite, got {got}. Evaluate it again.")
    goodness = np.where(of_all.failed, -np.inf, known.goodness(of_all.values))
    filled = np.where(of_all.failed, worst_values({"": of_all}, known), of_all.values)
    found = [
        LabelScores(label, of_all.values[:, n], of_all.failed[:, n], goodness[:, n], filled[:, n])
        for n, label in enumerate(labels)
        if not np.isnan(goodness[:, n]).all()
    ]
    if not found:
        cure = "Choose another label or metric."
        raise ValueError(
            f"`metric` must have a value in some case, got {metric!r} without any. {cure}"
        )
    notes = []
    if gone := [label for label in labels if label not in {of_label.label for of_label in found}]:
        notes.append(f"No case has a value of {', '.join(gone)}.")
    if n_failed := sum(int(of_label.failed.sum()) for of_label in found):
        worst = (
            "0" if known.more_is_better else f"the largest {known.noun} of any case for the label"
        )
        notes.append(
            f"{count(n_failed, 'score')} without a value, of a label that was missed or invented, "
            f"{'counts' if n_failed == 1 else 'count'} as the worst; in means as {worst}."
        )
    if n_left_out := sum(int(np.isnan(of_label.goodness).sum()) for of_label in found):
        do = "does" if n_left_out == 1 else "do"
        notes.append(
            f"{count(n_left_out, 'score')} without a value for another reason {do} not count."
        )
    return found, notes
