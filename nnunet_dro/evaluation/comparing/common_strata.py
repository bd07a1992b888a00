"""The strata of the cases that several evaluations have in common."""

from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from nnunet_dro.evaluation.comparing.common_ground import CommonGround, evaluated_case_table
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.stratifying.parts import parse_by
from nnunet_dro.evaluation.stratifying.stratify import divide, stratify, stratify_all
from nnunet_dro.naming import spelt_like


def find_common_strata(
    evaluations: Mapping[str, Evaluation], ground: CommonGround, *, by: Sequence[str] = ()
) -> "dict[str, pd.Series[str]]":
    """The strata of the common cases, by attribute.

    They are those of the first evaluation, or all cases together where it has none; where another
    one can be divided in the same way, every case has to be in the same stratum there.
    """
    (first, baseline), *others = evaluations.items()
    specs = spelt_like(
        dict.fromkeys(by or baseline.stratum_of_case),
        baseline.stratum_of_case,
    )
    strata_of_specs = {spec: _strata_of(baseline, spec, ground) for spec in specs}

    strata_by_attribute: dict[str, pd.Series[str]] = {}
    for spec, strata in strata_of_specs.items():
        attribute = str(strata.name)
        # The name of an attribute of the baseline may stand for the same cut of the column.
        is_named_twice = attribute != spec and attribute in strata_of_specs
        if is_named_twice and strata.equals(strata_of_specs[attribute]):
            continue
        # A column that is cut in a second way, or also used uncut, needs another name.
        if attribute in strata_by_attribute or attribute in strata_of_specs:
            attribute = spec
        strata_by_attribute[attribute] = strata.rename(attribute)

        for method, evaluation in others:
            if _divides_alike(evaluation, spec, baseline):
                theirs = _strata_of(evaluation, spec, ground)
                _check_same(
                    strata_by_attribute[attribute],
                    theirs,
                    first=first,
                    method=method,
                )

    return strata_by_attribute or stratify_all(None, [], ground.cases)


def _check_same(
    strata: "pd.Series[str]", theirs: "pd.Series[str]", *, first: str, method: str
) -> None:
    differs = strata.astype(str).to_numpy() != theirs.astype(str).to_numpy()
    if differs.any():
        case = strata.index[differs][0]
        values = f"{strata[case]!r} in {first} and {theirs[case]!r} in {method}"
        cure = (
            "Evaluate both with the same case table. Quantiles are those of an evaluation's own "
            "cases; compare with, for example, --by age:q3 to have those of the common cases."
        )
        raise ValueError(
            f"`{case}` must be in the same stratum in every evaluation, "
            f"got {values} of {str(strata.name)!r}. {cure}"
        )


def absent_strata(
    evaluations: Mapping[str, Evaluation],
    strata: "Mapping[str, pd.Series[str]]",
    *,
    by: Collection[str],
) -> dict[str, list[str]]:
    """Attribute to the strata that have no case in common.

    None was evaluated, or not with every method.
    """
    specs = [spec.replace(" ", "") for spec in by]
    absent = {}
    for attribute, stratum_of_case in strata.items():
        # A column that is cut here has other strata than in the evaluations.
        if by and attribute.replace(" ", "") not in specs:
            continue

        divided: list[str] = []
        without_cases: list[str] = []
        for evaluation in evaluations.values():
            if attribute in evaluation.stratum_of_case:
                divided += map(str, evaluation.stratum_of_case[attribute].cat.categories)
            by_attribute = evaluation.inputs.get("strata_without_cases", {})
            without_cases += by_attribute.get(attribute, ())

        present = stratum_of_case.cat.categories
        expected = dict.fromkeys([*divided, *without_cases])
        names = [name for name in expected if name not in present]
        if names:
            absent[attribute] = names

    return absent


def _divides_alike(evaluation: Evaluation, spec: str, baseline: Evaluation) -> bool:
    """Whether an evaluation can be divided in the same way as the baseline.

    An attribute of the baseline may be a cut column, and only the whole column is in the other's
    case table.
    """
    if spec in evaluation.stratum_of_case:
        return True
    try:
        parse_by(spec, [str(column) for column in evaluation.case_table.columns])
    except ValueError:
        return False
    return spec not in baseline.stratum_of_case or spec in baseline.options.by


def _strata_of(evaluation: Evaluation, spec: str, ground: CommonGround) -> "pd.Series[str]":
    """The strata of the common cases, named after their attribute."""
    if spec in evaluation.stratum_of_case:
        strata = evaluation.stratum_of_case[spec].rename(spec)
    else:
        _, strata = stratify(evaluated_case_table(evaluation, ground.cases), spec)
    codes, names = divide(strata, ground.cases, attribute=str(strata.name))
    categories = pd.Categorical([names[code] for code in codes], categories=names, ordered=True)
    return pd.Series(categories, index=pd.Index(ground.cases, name="case"), name=strata.name)
