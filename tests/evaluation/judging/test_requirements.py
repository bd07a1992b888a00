import re
import shlex
from functools import partial

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.judging.bounds import Bound, parse_bound
from nnunet_dro.evaluation.judging.outcomes import check_requirements
from nnunet_dro.evaluation.judging.requirements import (
    Requirement,
    parse_requirement,
    read_requirements,
)
from nnunet_dro.evaluation.judging.subjects import COMPARISON

COLUMNS = ["attribute", "stratum", "label", "metric", "n", "n_undefined", "mean", "p5", "p5_low"]

ROWS = [
    ("pathology", "spina_bifida", "cerebellum", "dice", 23, 0, 2.4 / 3, 0.612, 0.55),
    ("pathology", "spina_bifida", "brain stem", "dice", 23, 2, 0.9, 0.75, 0.7),
    ("pathology", "other, rare", "cerebellum", "dice", 1, 1, np.nan, np.nan, np.nan),
    ("pathology", "other, rare", "brain stem", "dice", 1, 0, 0.7, 0.69996, 0.69996),
    ("centre,pathology", "A,spina_bifida", "cerebellum", "dice", 10, 0, 0.9, 0.8, 0.7),
    ("centre,pathology", "A,spina_bifida", "brain stem", "dice", 10, 0, 0.9, 0.8, 0.7),
]

STRATA = pd.DataFrame(ROWS, columns=COLUMNS)


def check(text, strata=STRATA):
    return check_requirements(strata, [parse_requirement(text)])


@pytest.mark.parametrize(
    ("condition", "passed"),
    [
        ("p5>=0.612", True), ("p5>0.612", False), ("p5<=0.612", True), ("p5<0.612", False), ("p5>.6", True),
        # The mean of 0.6, 0.8 and 1 is a little less than 0.8.
        ("mean>=0.8", True), ("mean<80%", False),
        ("mean>=0.9", False), ("p5_low<0.65", True), ("n>=20", True), ("n>23", False), ("n_undefined<1", True),
    ],
)  # fmt: skip
def test_every_comparison_and_statistic(condition, passed):
    (outcome,) = check(f"label=cerebellum pathology=spina_bifida {condition}")
    assert outcome.passed is passed


@pytest.mark.parametrize("condition", ["p5>=0.70", "p5 >= 0.70", "p5>= 0.70", "p5 >=0.70"])
@pytest.mark.parametrize(
    "place", ["pathology=a {} label='brain stem'", "{} pathology=a label='brain stem'"]
)
def test_condition_may_have_spaces_and_any_place(condition, place):
    text = place.format(condition)
    assert parse_requirement(text) == Requirement(
        text, "p5", ">=", Bound("0.70", "", 0.7), "pathology", "a", "brain stem"
    )


def test_names_keep_their_odd_characters():
    parsed = parse_requirement('"größe [mm]=<5 = klein" metric=hd95 p75<=12')
    assert (parsed.attribute, parsed.stratum, parsed.metric) == ("größe [mm]", "<5 = klein", "hd95")


RARE = "pathology='other, rare'"
STEM = "pathology=spina_bifida label='brain stem'"


@pytest.mark.parametrize(
    ("where", "condition", "found"),
    [
        (
            "pathology=spina_bifida label=cerebellum",
            "p5>=0.70",
            "p5 0.612 is not >= 0.70 (23 cases)",
        ),
        (
            f"{RARE} label=cerebellum",
            "p5>=0",
            "p5 has no value that could be >= 0 (0 of 1 case with a value)",
        ),
        (
            f"{RARE} label=cerebellum",
            "p5<=1",
            "p5 has no value that could be <= 1 (0 of 1 case with a value)",
        ),
        # Rounding would say 0.700, or 70.0%.
        (f"{RARE} label='brain stem'", "p5>=0.70", "p5 0.69996 is not >= 0.70 (1 case)"),
        (
            f"{RARE} label='brain stem'",
            "p5>=70% n>=1",
            "p5 69.996% is not >= 70% (1 case); n 1 is >= 1",
        ),
        (STEM, "p5>=70% n>=1", "p5 75.0% is >= 70% (21 of 23 cases with a value); n 21 is >= 1"),
        # Cases with a value count.
        (STEM, "n>=21", "n 21 is >= 21 (21 of 23 cases with a value)"),
        (STEM, "n>=22", "n 21 is not >= 22 (21 of 23 cases with a value)"),
        (f"{RARE} label=cerebellum", "n>=1", "n 0 is not >= 1 (0 of 1 case with a value)"),
    ],
)
def test_the_line_of_an_outcome_says_what_was_found_and_asked_for(where, condition, found):
    (outcome,) = check(f"{where} {condition}")
    is_passed = "is not" not in found and "has no" not in found
    assert (outcome.passed, outcome.line) == (is_passed, f"{where}: {found}")


def test_patients_can_be_required_and_are_told():
    strata = STRATA.assign(n_patients=[12, 12, 1, 1, 3, 3])

    assert [
        (o.passed, o.line) for o in check("label=cerebellum pathology=* n_patients>=10", strata)
    ] == [
        (
            True,
            "pathology=spina_bifida label=cerebellum: n_patients 12 is >= 10 (23 cases, 12 patients)",
        ),
        (
            False,
            "pathology='other, rare' label=cerebellum: n_patients 1 is not >= 10 (0 of 1 case with a value, 1 patient)",
        ),
    ]

    (outcome,) = check("pathology=spina_bifida label=cerebellum p5>=0.6 n_patients>=13", strata)
    assert outcome.line.endswith("; n_patients 12 is not >= 13")


FEW = pd.DataFrame(
    {
        "attribute": "all",
        "stratum": "all",
        "label": "tumour",
        "metric": "dice",
        "n": range(1, 61),
        "n_undefined": 0,
    }
).assign(
    **dict.fromkeys(("mean", "std", "median", "iqr", "p75", "p25", "p10", "p5", "min", "max"), 0.8)
)


@pytest.mark.parametrize(
    ("statistic", "enough"),
    [
        ("mean", 1),
        ("min", 1),
        ("max", 1),
        ("median", 2),
        ("p25", 4),
        ("p75", 4),
        ("iqr", 4),
        ("p10", 10),
        ("p5", 20),
    ],
)
def test_a_percentile_without_a_case_beyond_it_cannot_tell(statistic, enough):
    """A case has to lie beyond it: one in twenty beyond p5, one in four beyond p25."""
    words = [outcome.verdict.word for outcome in check(f"{statistic}>=0.7", FEW)]

    assert words == ["cannot tell"] * (enough - 1) + ["met"] * (60 - enough + 1)
    # A number that misses the bound is no doubt.
    assert {outcome.verdict.word for outcome in check(f"{statistic}>=0.9", FEW)} == {"not met"}


def test_a_requirement_may_say_how_many_cases_are_enough():
    said = "p5 0.800 is >= 0.7 (8 cases); of fewer than 20 cases none lies beyond p5; if 8 are enough, add n>=8"
    assert check("p5>=0.7", FEW)[7].line == f"label=tumour: {said}"
    assert [outcome.verdict.word for outcome in check("p5>=0.7 n>=8", FEW)] == ["not met"] * 7 + [
        "met"
    ] * 53
    assert check("p5>=0.7 n>=8", FEW)[6].line.endswith("(7 cases); n 7 is not >= 8")
    # More may be asked for than the percentile needs, and of any statistic.
    assert [outcome.passed for outcome in check("mean>=0.7 n>=30", FEW)] == [False] * 29 + [
        True
    ] * 31


def test_with_patients_their_number_is_what_a_percentile_needs():
    strata = FEW.assign(n=60, n_patients=FEW["n"])
    assert [o.verdict.word for o in check("p5>=0.7", strata)] == ["cannot tell"] * 19 + ["met"] * 41

    said = "(60 cases, 8 patients); of fewer than 20 patients none lies beyond p5; if 8 are enough, add n_patients>=8"
    assert check("p5>=0.7", strata)[7].line.endswith(said)
    assert [o.passed for o in check("p5>=0.7 n_patients>=8", strata)] == [False] * 7 + [True] * 53
    # Sixty cases of eight patients are not sixty values.
    assert not check("p5>=0.7 n>=8", strata)[7].passed


@pytest.mark.parametrize(
    ("text", "column"),
    [("mean_low_guaranteed>=0.7", "mean_low"), ("mean_high_guaranteed<=0.9", "mean_high")],
)
def test_means_are_judged_by_the_bounds_that_assume_nothing(text, column):
    to_read, sure = (0.75, 0.6) if column == "mean_low" else (0.85, 0.95)
    strata = FEW.tail(1).assign(**{column: to_read, f"{column}_guaranteed": sure})

    (outcome,) = check(text, strata)

    assert (outcome.verdict.word, outcome.value) == ("not met", sure)
    assert outcome.line.endswith(
        "(60 cases); the bound assumes only that Dice lies between 0 and 1"
    )

    (without,) = check(text, strata.assign(**{f"{column}_guaranteed": np.nan}))
    assert without.verdict.word == "cannot tell"

    (distance,) = check(
        f"metric=hd95 {column}_guaranteed<=0.9",
        strata.assign(metric="hd95", **{f"{column}_guaranteed": np.nan}),
    )
    assert distance.verdict.word == "cannot tell"
    assert distance.line.endswith(
        "no bound of their mean is guaranteed: ask for a percentile, p75<=4@95"
    )


def test_what_a_bound_of_a_mean_assumes_has_to_be_said():
    strata = FEW.tail(1).assign(mean_low=0.75, mean_low_guaranteed=0.6)
    (by_t,) = check("mean_low_t>=0.7", strata)
    assert (by_t.verdict.word, by_t.value) == ("met", 0.75)
    said = "(60 cases); Student's t, which holds if failures like those of the sample are all there"
    assert said in by_t.line

    # The same name in strata.csv is another number: it is refused, with both ways to go on.
    with pytest.raises(ValueError, match=r"Write mean_low_guaranteed, .* or mean_low_t, by"):
        check("mean_low>=0.7", strata)
    with pytest.raises(ValueError, match="what the bound of the mean assumes"):
        parse_requirement("mean_difference_high<=1pt", COMPARISON)
    for text in ("mean_difference_low_t>=0", "mean_difference_low_guaranteed>=0"):
        assert parse_requirement(text, COMPARISON).statistic == text[:-3]
    assert parse_requirement("mean_difference_low_t>=0", COMPARISON).column == "mean_difference_low"


def test_the_share_of_failures_can_be_bounded():
    strata = FEW.assign(n_failed=0, failure_high=1 - 0.05 ** (1 / FEW["n"]))

    assert [o.n for o in check("failure_high<=10%", strata) if o.passed] == list(range(29, 61))
    assert (
        check("failure_high<=10%", strata)[29].line
        == "label=tumour: failure_high 9.5% is <= 10% (30 cases)"
    )
    assert all(o.passed for o in check("n_failed<=0", strata))

    unknown = check("n_failed<=0", strata.assign(n_failed=np.nan))[0]
    assert (unknown.verdict.word, unknown.line.split("; ")[1]) == (
        "cannot tell",
        "it is not known of this metric",
    )

    strata = FEW.assign(metric="hd95", n_failed=1, n_missed=1, n_left_out=1, failure_high=0.216)

    (outcome,) = check("metric=hd95 failure_high<=40%", strata.tail(1))

    # Cases that have no distance, because their label was missed, are among the failures.
    assert (outcome.passed, outcome.line) == (
        True,
        "label=tumour metric=hd95: failure_high 21.6% is <= 40% (60 cases)",
    )
    with pytest.raises(
        ValueError,
        match=r"compare failure_high with a fraction from 0 to 1, .* Write 10% or 0\.1\.$",
    ):
        check("metric=hd95 failure_high<=10", strata)


@pytest.mark.parametrize("count", ["n_failed", "n_missed", "n_invented", "n_left_out"])
def test_no_failure_among_no_cases_says_nothing(count):
    strata = FEW.tail(1).assign(**{count: 0}, n_undefined=60)
    (outcome,) = check(f"{count}<=0", strata)

    assert outcome.verdict.word == "cannot tell"
    assert outcome.line.endswith(
        "(0 of 60 cases with a value); no case has a value; if 0 are enough, add n>=0"
    )
    assert check(f"{count}<=0 n>=0", strata)[0].passed
    assert check("n_undefined<=60", strata)[0].passed


def test_references_without_a_prediction_leave_it_open():
    absent = FEW.assign(n_absent=9)
    (outcome,) = [o for o in check("mean>=0.7", absent) if o.n == 3]

    assert outcome.verdict.word == "cannot tell"
    assert outcome.line.endswith(
        "(3 cases); 9 more references have no prediction; if 3 are enough, add n>=3"
    )
    for text in ("mean>=0.7 n>=3", "n>=3"):
        assert [o.passed for o in check(text, absent)] == [False] * 2 + [True] * 58
    assert {o.verdict.word for o in check("mean>=0.9", absent)} == {"not met"}


def test_a_bound_is_never_met_where_the_number_itself_misses_it():
    columns = {"mean_low": 0.95, "mean_high_guaranteed": 0.1, "p5_low_95": 0.95}
    strata = STRATA.assign(**columns)
    for text in ("mean_low_t>=0.93", "mean_high_guaranteed<=0.5", "p5>=0.93@95"):
        outcomes = check(f"pathology=spina_bifida {text}", strata)
        assert [o.verdict.word for o in outcomes] == ["not met"] * 2

    said = "p5's lower 95 % bound 0.950 is >= 0.93 (23 cases); p5 itself is 0.612"

    assert outcomes[0].line == f"pathology=spina_bifida label=cerebellum: {said}"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("p5>=61%", 0.61),
        ("p5>=61.2%", 0.612),
        ("p5 >= 61.2 %", 0.612),
        ("p5>=61.2pt", 0.612),
        ("p5>=6e-1", 0.6),
    ],
)
def test_a_bound_of_a_fraction_may_have_a_unit(text, value):
    (outcome,) = check(f"pathology=spina_bifida label=cerebellum {text}")
    assert outcome.requirement.bound.value == value
    assert outcome.passed


def test_distances_are_in_mm_with_or_without_the_unit():
    distances = STRATA.assign(metric="hd95", p75=3.5)
    texts = [
        f"pathology=spina_bifida label=cerebellum {text}"
        for text in ("p75<=4", "p75<=4mm", "p75 <= 4 mm")
    ]
    for text in texts:
        (outcome,) = check(text, distances)
        assert outcome.passed
        assert "p75 3.500 mm is <= 4" in outcome.line

    bare, in_mm = check_requirements(
        distances, [parse_requirement(text) for text in texts[:2]], in_pixels=True
    )

    assert bare.passed
    assert "p75 3.500 px is <= 4" in bare.line
    assert in_mm.verdict.word == "cannot tell"
    assert in_mm.line.endswith("distances are in pixels: write the bound without mm")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "one condition"),
        ("pathology=a label=b", "one condition"),
        ("p5>=0.7 mean>=0.8", "one condition"),
        ("p5=>0.7", "one condition"),
        ("p5==0.7", "one condition"),
        (
            "p7>=0.7",
            "statistic of strata.csv, not 'p7'.*Choose from: n, n_patients, n_undefined, n_missed, .* mean",
        ),
        ("std_low<=0.1", "a bound that exists, not 'std_low'.*ask for p5 or p75"),
        ("cerebellum p5>=0.7", "NAME=VALUE and a condition, not 'cerebellum'"),
        ("label= p5>=0.7", "NAME=VALUE and a condition, not 'label='"),
        ("centre=A pathology=b p5>=0.7", "one attribute at most.*centre,pathology=A,tumour"),
        ("label=a label=b p5>=0.7", "one label at most"),
        ("pathology='a p5>=0.7", "closing quote"),
        # Bounds.
        *(
            (f"p5>={bound}", "compare with a number, not")
            for bound in ("", "nan", "1e", "70km", "%", "0x1", "٣")
        ),
        ("p5<=1e999", "compare with a number, not '1e999'"),
        ("p5>=1e99999", "`requirement` must"),
        ("p5>=70 %%", "`requirement` must"),
        ("p5>=95", r"compare dice with a fraction from 0 to 1, .* Write 95% or 0\.95\.$"),
        ("p5>=1.5", r"Write 1\.5% or 0\.015\.$"),
        ("p5>=7000%", r"a fraction from 0 to 1.*Write, for example, 70% or 0\.70\."),
        ("p5>=-0.1", "a fraction from 0 to 1"),
        ("p5>=0.70%", r"ask for 1% or more where it has a unit, .* Write 70% or 0\.7\.$"),
        ("p5>0.70pt", r"ask for 1pt or more where it has a unit, .* Write 70pt or 0\.7\.$"),
        ("p5>=4mm", r"compare dice with a fraction, .*Write 0\.70 or 70%"),
        ("n>=20%", r"compare n with a plain number, not '20%', .* Write 20\."),
        ("metric=hd95 p5<=4%", r"compare hd95 with mm, .* Write 4mm\."),
        ("metric=hd95 p5<=4pt", r"compare hd95 with mm, .* Write 4mm\."),
        # Confidence, and what stands beside the condition.
        ("mean>=0.7@95", "confidence in a percentile, not in 'mean'.*median, p75"),
        ("p5_low>=0.7@95", "not in 'p5_low'"),
        *(
            (f"p5>=0.7@{confidence}", "confidence from 50 to below 100")
            for confidence in ("", "100", "x")
        ),
        ("n_missed<=1 n_missed<=2 mean<=4", "name a number of cases, once"),
        ("mean<=4 n_missed<=x", "name a number of cases, once"),
        ("mean<=4 n_missed<=0.5", "name a number of cases, once"),
        # What is not reported.
        (
            "pathology=trisomy p5>=0.7",
            "reported stratum, not 'trisomy'.*: spina_bifida, other, rare, or [*]",
        ),
        (
            "scanner=X p5>=0.7",
            "reported attribute, not 'scanner'.*Add --by scanner.*pathology, centre,pathology",
        ),
    ],
)
def test_requirement_that_cannot_be_checked_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        check(text, pd.concat([STRATA, STRATA.assign(metric="hd95")]))


@pytest.mark.parametrize(
    ("is_difference", "cure", "corrected"),
    [
        (False, "Write 1.5%, or 150% for 1.5.", "150%"),
        (True, "Write 1.5pt for 1.5 percentage points, or 150pt.", "150pt"),
    ],
)
def test_a_fraction_without_a_limit_may_be_meant_beyond_1(is_difference, cure, corrected):
    def check_bound(text):
        parse_bound(text).check(
            ("absolute_relative_volume_error", "fraction"),
            partial(InputError, "requirement", got=text),
            is_difference=is_difference,
            end="high",
            is_bounded=False,
        )

    with pytest.raises(ValueError, match=re.escape(cure)):
        check_bound("1.5")
    check_bound(corrected)


@pytest.mark.parametrize("name", ["left kidney", 'a"b', "it's", "back\\", "#5", "a = b", "é"])
def test_a_verdict_names_its_row_as_a_requirement_does(name):
    strata = STRATA.replace({"pathology": "my kind", "spina_bifida": name, "cerebellum": name})
    quoted = shlex.quote(name)

    (outcome,) = check(f"'my kind'={quoted} label={quoted} p5>=0.99", strata)
    row, _, _ = outcome.line.partition(": p5 ")
    (again,) = check(f"{row} p5>=0.99", strata)

    assert again.line == outcome.line


def test_column_with_an_equals_sign_is_to_be_renamed_before_it_is_required():
    strata = STRATA.replace({"attribute": {"pathology": "dose=mg"}})
    message = (
        "Add --by dose, or choose from: dose=mg.*ends at the first equals sign: rename the col"
    )

    with pytest.raises(ValueError, match=message):
        check("dose=mg=spina_bifida p5>=0.7", strata)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pathology=spina_bifida", ["spina_bifida cerebellum", "spina_bifida brain stem"]),
        ("pathology=spina_bifida label=*", ["spina_bifida cerebellum", "spina_bifida brain stem"]),
        ("pathology=* label=cerebellum", ["spina_bifida cerebellum", "other, rare cerebellum"]),
        ("centre,pathology=A,spina_bifida label=cerebellum", ["A,spina_bifida cerebellum"]),
        # Without a stratum every stratum and all cases are meant, where there are any.
        (
            "label=cerebellum",
            [
                "spina_bifida cerebellum",
                "other, rare cerebellum",
                "A,spina_bifida cerebellum",
                "all cerebellum",
            ],
        ),
    ],
)
def test_every_row_that_is_meant_has_to_pass(text, expected):
    strata = pd.DataFrame(
        [*ROWS, ("all", "all", "cerebellum", "dice", 40, 0, 0.8, 0.75, 0.7)], columns=COLUMNS
    )
    outcomes = check(f"{text} p5>=0.7", strata)

    assert [f"{o.stratum} {o.label}" for o in outcomes] == expected
    if text == "label=cerebellum":
        assert outcomes[-1].line == "label=cerebellum: p5 0.750 is >= 0.7 (40 cases)"


def test_metric_is_dice_or_the_only_one():
    distances = STRATA.assign(metric="hd95", p5=12.3456)
    both = pd.concat([STRATA, distances])

    assert {o.metric for o in check("p5>=0.7", both)} == {"dice"}
    assert {o.metric for o in check("p5>=0.7", distances)} == {"hd95"}

    lines = [
        o.line for o in check("pathology=spina_bifida label=cerebellum metric=hd95 p5<=12", both)
    ]
    assert lines == [
        "pathology=spina_bifida label=cerebellum metric=hd95: p5 12.346 mm is not <= 12 (23 cases)"
    ]
    with pytest.raises(ValueError, match=r"name one of the metrics hd95, nsd.*Add metric=NAME"):
        check("p5>=0.7", pd.concat([distances, STRATA.assign(metric="nsd")]))


def test_file_has_a_requirement_a_line(tmp_path):
    path = tmp_path / "requirements.txt"
    text = "\ufeff# don't\n\nmean>=0.8  # isn't much\r\n  label='stem #2' site=a#1 p5>=0.7\n"
    path.write_text(text, encoding="utf-8")

    first, second = read_requirements(path)

    assert (first.text, first.statistic, first.label) == ("mean>=0.8", "mean", None)
    assert (second.label, second.stratum) == ("stem #2", "a#1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "# a comment\nmean>=0.8\np7>=0.7\n",
            r"Line 3 of '.*wanted\.txt': `requirement` must be about a statistic",
        ),
        ("mean>=0.8\nlabel='a p5>=0.7 # it\n", r"Line 2 of '.*wanted\.txt': .* closing quote"),
        ("# nothing\n", r"at least one requirement, got none in '.*wanted\.txt'"),
        ("\xff\xfe", "UTF-8"),
    ],
)
def test_unusable_file_is_refused(tmp_path, text, message):
    (tmp_path / "wanted.txt").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=message):
        read_requirements(tmp_path / "wanted.txt")


def test_strata_with_categories_or_numbers_are_matched_as_text():
    strata = STRATA.assign(stratum=[1, 1, 2, 2, 3, 3]).astype(
        {"attribute": "category", "label": "category"}
    )
    assert [o.passed for o in check("pathology=1 p5>=0.7", strata)] == [False, True]


def test_number_that_a_bound_is_about_is_written_in_the_unit_of_the_bound():
    strata = STRATA.assign(p5=0.00771028, p5_low_95=0.001)
    line = check("pathology=spina_bifida label=cerebellum p5>=70%@95", strata)[0].line
    assert line.endswith("bound 0.1% is not >= 70% (23 cases); p5 itself is 0.8%")
