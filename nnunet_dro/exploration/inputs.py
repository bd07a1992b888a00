"""What an exploration takes from an evaluation.

Attributes that divide the cases, their patients and their scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from nnunet_dro.arrays import BoolArray, FloatArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.comparing.common_ground import CommonGround, evaluated_case_table
from nnunet_dro.evaluation.comparing.one_sided import method_values, worst_values
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.stratum_statistics import check_rows
from nnunet_dro.evaluation.stratifying.auto_columns import AUTO
from nnunet_dro.evaluation.stratifying.parts import Part, has_many_numbers, parse_by
from nnunet_dro.evaluation.stratifying.stratify import ALL, divide, stratify
from nnunet_dro.exploration.search import CodedAttribute
from nnunet_dro.exploration.words import WORDS
from nnunet_dro.files.case_table import attributes_of, notes_on_decimal_commas, read_cases_of
from nnunet_dro.naming import name_some, spelt_like


def find_attributes(
    evaluation: Evaluation,
    cases: Sequence[str],
    *,
    by: Sequence[str] | None = None,
    table: Path | None = None,
    min_cases: int = 1,
) -> tuple[list[CodedAttribute], list[str]]:
    """The attributes to combine, and notes.

    Intersections are taken apart, and columns of many numbers are cut into thirds.
    """
    # The case table of the evaluation, and the new columns of another one.
    evaluated = evaluated_case_table(evaluation, cases)
    described = read_cases_of(table, cases) if table else evaluated[["case"]]
    _check_same_entries(evaluated, described)
    new = [name for name in attributes_of(described) if name not in evaluated.columns]
    wide = evaluated.merge(described[["case", *new]], on="case", how="left")

    specs = _specs_of(evaluation, wide) if by is None else by
    strata, notes = _strata_of(specs, evaluation, wide)
    # Columns that the evaluation did not use divide the cases, too, unless attributes are named.
    if by is None:
        used = {evaluation.options.patient, *(_column(name, wide) for name in strata)}
        for column in attributes_of(described):
            if column not in used:
                notes += _add(strata, wide, Part(column), in_thirds=True)

    attributes, notes_on_others = _usable(strata, cases, min_cases)
    return attributes, notes + notes_on_others


def _strata_of(
    specs: Sequence[str], evaluation: Evaluation, table: pd.DataFrame
) -> "tuple[dict[str, pd.Series[str]], list[str]]":
    """The strata of some `--by`, intersections taken apart, and notes on them."""
    strata: dict[str, pd.Series[str]] = {}
    notes: list[str] = []
    for spec in spelt_like(dict.fromkeys(specs), evaluation.stratum_of_case):
        is_intersection = "," in spec and spec not in table.columns
        if spec in evaluation.stratum_of_case and not is_intersection:
            strata.setdefault(spec, evaluation.stratum_of_case[spec])
            continue

        for part in parse_by(spec, attributes_of(table)):
            is_cut = bool(part.edges or part.n_quantiles)
            is_computed = part.column.startswith(AUTO)
            notes += _add(strata, table, part, in_thirds=is_computed and not is_cut)
    return strata, notes


def _check_same_entries(evaluated: pd.DataFrame, described: pd.DataFrame) -> None:
    """Refuse a case table with other entries than those that the evaluation was made with.

    Columns that the evaluation does not have may hold anything.
    """
    entries = described.set_index("case").loc[evaluated["case"]]
    for name in attributes_of(described):
        if name not in evaluated.columns:
            continue

        before = evaluated[name].to_numpy(dtype=object)
        now = entries[name].to_numpy(dtype=object)
        # A number may be written in another way; other text is no number, and unequal.
        number_before = pd.to_numeric(before, errors="coerce")
        number_now = pd.to_numeric(now, errors="coerce")
        differs = (before != now) & (number_before != number_now)

        if differs.any():
            place = int(differs.argmax())
            case = evaluated["case"].iloc[place]
            raise InputError(
                "cases",
                must="have the entries that the evaluation was made with, or new columns",
                got=f"{now[place]!r} for {before[place]!r} in {name!r} of {case!r}",
                cure="Evaluate again with this table.",
            )


def _usable(
    strata: "Mapping[str, pd.Series[str]]", cases: Sequence[str], min_cases: int
) -> tuple[list[CodedAttribute], list[str]]:
    """The attributes that divide the cases and have a stratum that is large enough.

    Also notes on the others.
    """
    large: list[CodedAttribute] = []
    small: list[CodedAttribute] = []
    constant: list[str] = []
    for name, stratum_of_case in strata.items():
        codes, names = divide(stratum_of_case, cases, attribute=name)
        attribute = CodedAttribute(name, codes, tuple(map(str, names)))
        if len(names) < 2:
            constant.append(name)
        elif max(attribute.n_cases.values()) >= min_cases:
            large.append(attribute)
        else:
            small.append(attribute)

    if not large and not small:
        raise _indivisible(constant)
    scarce = []
    for attribute in large:
        scarce += [
            f"{stratum} ({n}) of {attribute.name}"
            for stratum, n in attribute.n_cases.items()
            if n < min_cases
        ]
    # Without a large one, the search says that there are too few cases.
    left_out = [attribute.name for attribute in small if large]
    notes = WORDS.sentences(
        "left_out",
        constant=constant,
        small=left_out,
        scarce=scarce,
        min_cases=min_cases,
    )
    return large or small, notes


def _indivisible(constant: Sequence[str]) -> InputError:
    """The error where no attribute divides the cases, but some are the same in all, if any."""
    got = "none"
    if constant:
        got = f"only {name_some(constant)}, which is the same in all"
    return InputError(
        "by",
        must="name attributes that divide the cases",
        got=got,
        cure="Evaluate with --by, or name a case table with --cases.",
    )


def _specs_of(evaluation: Evaluation, table: pd.DataFrame) -> list[str]:
    """The attributes of the evaluation as for `--by`.

    Intersections are taken apart into the columns and cuts that they were asked for by.
    """
    attributes = [name for name in evaluation.stratum_of_case if name != ALL]
    intersections = [name for name in attributes if "," in name and name not in table.columns]
    specs = [name for name in attributes if name not in intersections]
    covered = {_column(name, table) for name in specs}

    for name in intersections:
        columns = name.split(",")
        asked = [spec for spec in evaluation.options.by if _columns_in(spec, table) == columns]
        spec = asked[0] if asked else name

        for part in parse_by(spec, attributes_of(table)):
            if part.column not in covered:
                covered.add(part.column)
                specs.append(_written(part))

    return specs


def _columns_in(spec: str, table: pd.DataFrame) -> list[str]:
    """The columns that a `--by` asks for; none if it asks for one that is not in the table."""
    try:
        return [part.column for part in parse_by(spec, attributes_of(table))]
    except ValueError:
        return []


def _written(part: Part) -> str:
    """A column and its cut as for `--by`."""
    if part.n_quantiles:
        return f"{part.column}:q{part.n_quantiles}"
    if part.edges:
        return f"{part.column}:{','.join(part.edges)}"
    return part.column


def _column(attribute: str, table: pd.DataFrame) -> str:
    """The column of an attribute, which may be named after its cut."""
    return attribute if attribute in table.columns else attribute.rpartition(":")[0]


def _add(
    strata: "dict[str, pd.Series[str]]",
    table: pd.DataFrame,
    part: Part,
    *,
    in_thirds: bool,
) -> list[str]:
    """Add the strata of a column, in thirds if wanted and it has many numbers.

    Returns:
        Notes on its entries and its thirds.
    """
    notes = []
    if in_thirds:
        notes += notes_on_decimal_commas(part.column, table[part.column])
        in_thirds = has_many_numbers(table[part.column].tolist())
    if in_thirds:
        part = Part(part.column, n_quantiles=3)

    spec = _written(part)
    attribute, stratum_of_case = stratify(table, spec)
    # A second cut of a column is named by its spec.
    name = spec if attribute in strata else attribute
    if name in strata or (attribute in strata and stratum_of_case.equals(strata[attribute])):
        return notes

    strata[name] = stratum_of_case.rename(name)
    if in_thirds:
        thirds = "; ".join(map(str, stratum_of_case.cat.categories))
        notes.append(f"{name} is cut into thirds of the cases: {thirds}.")
    return notes


@dataclass(frozen=True, eq=False)
class LabelScores:
    """The scores of one label, where a label that was missed or invented is the worst.

    Arrays of shape (n_cases,).
    """

    label: str
    values: FloatArray  # the metric; NaN where undefined
    failed: BoolArray  # whether it is undefined because the label was missed or invented
    goodness: FloatArray  # larger is better: -inf where failed, NaN where the case does not count
    filled: FloatArray  # the metric; where failed 0, or the label's largest distance or error


def label_scores(
    evaluation: Evaluation, cases: Sequence[str], metric: str, labels: Sequence[str]
) -> tuple[list[LabelScores], list[str]]:
    """The scores of the labels that have any, and notes on those that are undefined."""
    check_rows(evaluation.scores, cure="Evaluate it again.")
    ground = CommonGround(tuple(cases), tuple(labels), metrics=(metric,), notes=())
    table = method_values(evaluation, ground, metric)
    _check_finite(table.values, cases, labels)

    # A label that was missed or invented is the worst, whatever the metric.
    described = METRICS[metric]
    goodness = np.where(table.failed, -np.inf, described.goodness(table.values))
    worst = worst_values({"": table}, described)
    filled = np.where(table.failed, worst, table.values)

    scores = []
    for n, label in enumerate(labels):
        if not np.isnan(goodness[:, n]).all():
            scores.append(
                LabelScores(
                    label,
                    values=table.values[:, n],
                    failed=table.failed[:, n],
                    goodness=goodness[:, n],
                    filled=filled[:, n],
                )
            )

    if not scores:
        raise InputError(
            "metric",
            must="have a value in some case",
            got=f"{metric!r} without any",
            cure="Choose another label or metric.",
        )
    scored = {scores_of_label.label for scores_of_label in scores}
    notes = WORDS.sentences(
        "undefined",
        labels=[label for label in labels if label not in scored],
        n_failed=sum(int(scores_of_label.failed.sum()) for scores_of_label in scores),
        n_left_out=sum(int(np.isnan(scores_of_label.goodness).sum()) for scores_of_label in scores),
        metric=described,
    )
    return scores, notes


def _check_finite(values: FloatArray, cases: Sequence[str], labels: Sequence[str]) -> None:
    """Check that no score, shape (n_cases, n_labels), is infinite."""
    is_infinite = np.isinf(values)
    if is_infinite.any():
        case, label = np.argwhere(is_infinite)[0]
        raise InputError(
            "scores",
            must="be finite",
            got=f"an infinite one for {cases[case]!r}, {labels[label]!r}",
            cure="Evaluate it again.",
        )
