"""What is combined: the attributes of the evaluation, and the columns of a case table."""

import pandas as pd
import pytest

from nnunet_dro.evaluation.stratifying.stratify import stratify
from nnunet_dro.exploration.inputs import find_attributes
from tests.exploration.made import STRATA, made
from tests.ranking.made import evaluation_of


def names_of(attributes):
    return {attribute.name: attribute.strata for attribute in attributes}


def cases_of(evaluation):
    return sorted(evaluation.scores["case"].unique())


def write_table(path, evaluation, **columns):
    pd.DataFrame({"case": cases_of(evaluation)} | columns).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def evaluation():
    return made(30)


def test_attributes_of_the_evaluation_and_columns_are_combined(evaluation, tmp_path):
    attributes, notes = find_attributes(evaluation, cases_of(evaluation))
    assert names_of(attributes) == {name: tuple(strata) for name, strata in STRATA.items()}
    assert notes == []

    of_case = evaluation.scores.set_index("case")["scanner"]
    scanner = next(a for a in attributes if a.name == "scanner")

    assert [scanner.strata[code] for code in scanner.codes] == of_case.loc[
        cases_of(evaluation)
    ].tolist()

    table = write_table(tmp_path / "t.csv", evaluation, age=range(30), grade=[1, 2] * 15, dose=5)
    attributes, notes = find_attributes(evaluation, cases_of(evaluation), table=table)
    found = names_of(attributes)

    assert found["age"] == ("q1: 0 to 9", "q2: 10 to 19", "q3: 20 to 29")
    assert found["grade"] == ("1", "2")
    assert found["centre"] == ("A", "B", "C")
    assert "dose" not in found
    assert notes == [
        "age is cut into thirds of the cases: q1: 0 to 9; q2: 10 to 19; q3: 20 to 29.",
        "Left out, because it is the same in all cases: dose.",
    ]

    table = write_table(tmp_path / "t.csv", evaluation, age=range(30), dose=[1, 2, 3] * 10)
    attributes, notes = find_attributes(
        evaluation, cases_of(evaluation), by=["age:0,10,29", "sex"], table=table
    )

    assert names_of(attributes) == {"age": ("0 to 10", "10 to 29"), "sex": ("f", "m")}
    assert notes == []


def test_intersections_are_taken_apart_and_keep_their_cuts():
    n = 12
    columns = {"centre": ["A", "B"] * 6, "age": [str(3 * i) for i in range(n)]}
    options = {"by": ["centre,age:0,18,40"]}
    evaluation = evaluation_of(
        "dro", {"dice": {"liver": [0.5] * n}}, columns=columns, options=options
    )
    pairs = [f"{'AB'[i % 2]},{'0 to 18' if 3 * i < 18 else '18 to 40'}" for i in range(n)]
    both = pd.Series(pairs, index=pd.Index(cases_of(evaluation), name="case"), name="centre,age")
    evaluation.stratum_of_case["centre,age"] = both.astype("category")

    attributes, _ = find_attributes(evaluation, cases_of(evaluation))

    assert names_of(attributes) == {"centre": ("A", "B"), "age": ("0 to 18", "18 to 40")}


@pytest.mark.parametrize(
    "by", [["\u00e2ge", "\u00e2ge:q3"], ["\u00e2ge:q3", "\u00e2ge"], ["a\u0302ge"]]
)
def test_a_cut_that_is_an_attribute_of_the_evaluation_counts_once(by):
    ages = [str(age) for age in range(30)]
    cut = evaluation_of("dro", {"dice": {"liver": [0.5] * 30}}, columns={"\u00e2ge": ages})
    table = pd.DataFrame({"case": cases_of(cut), "\u00e2ge": ages})
    _, cut.stratum_of_case["\u00e2ge"] = stratify(table, "\u00e2ge:q3")

    attributes, _ = find_attributes(cut, cases_of(cut), by=by)

    assert names_of(attributes) == {"\u00e2ge": ("q1: 0 to 9", "q2: 10 to 19", "q3: 20 to 29")}


def test_the_patient_is_no_attribute(tmp_path):
    evaluation = made(30, per_patient=2, patient="patient")
    table = write_table(
        tmp_path / "t.csv", evaluation, patient=[f"p{n // 2:03}" for n in range(30)]
    )

    attributes, _ = find_attributes(evaluation, cases_of(evaluation), table=table)

    assert names_of(attributes).keys() == STRATA.keys()

    numbers, column = evaluation.patient_numbers(cases_of(evaluation))
    assert (numbers.tolist(), column) == ([n // 2 for n in range(30)], "patient")
    assert made(4).patient_numbers(["case_000", "case_001"])[1] is None


def test_strata_that_are_too_small_to_be_looked_at_are_named(evaluation, tmp_path):
    table = write_table(tmp_path / "t.csv", evaluation, camera=["rare"] * 4 + ["A", "B"] * 13)
    _, notes = find_attributes(
        evaluation, cases_of(evaluation), table=table, by=["camera"], min_cases=10
    )

    assert notes == ["Too few cases to be looked at, fewer than 10: rare (4) of camera."]

    table = write_table(tmp_path / "t.csv", evaluation, series=[f"uid.{n}" for n in range(30)])
    attributes, notes = find_attributes(evaluation, cases_of(evaluation), table=table, min_cases=6)

    assert "series" not in names_of(attributes)
    assert notes == ["Left out, because no stratum has 6 cases: series."]


def test_what_cannot_be_used_is_named(evaluation, tmp_path):
    cases = cases_of(evaluation)
    plain = evaluation_of("dro", {"dice": {"liver": [0.5] * 3}})

    with pytest.raises(
        ValueError,
        match=r"must name attributes that divide the cases, got none\. Evaluate with --by",
    ):
        find_attributes(plain, cases_of(plain))
    with pytest.raises(ValueError, match=r"'scaner'\. Choose from: .*scanner"):
        find_attributes(evaluation, cases, by=["scaner"])

    short = tmp_path / "short.csv"
    short.write_text("case,age\ncase_000,3\n")

    with pytest.raises(ValueError, match=r"row for every case, got none for case_001.*short\.csv"):
        find_attributes(evaluation, cases, table=short)

    one = write_table(tmp_path / "one.csv", plain, dose=[1, 1, 1])
    with pytest.raises(ValueError, match="got only dose, which is the same in all"):
        find_attributes(plain, cases_of(plain), table=one)
