import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation.outcomes import check_requirements
from nnunet_dro.evaluation.requirements import Requirement, parse_requirement, read_requirements

COLUMNS = ["attribute", "stratum", "label", "metric", "n", "n_undefined", "mean", "p5", "p5_low"]

ROWS = [
    ("pathology", "spina_bifida", "cerebellum", "dice", 23, 0, 0.8, 0.612, 0.55),
    ("pathology", "spina_bifida", "brain stem", "dice", 23, 2, 0.9, 0.75, 0.7),
    ("pathology", "other, rare", "cerebellum", "dice", 1, 1, np.nan, np.nan, np.nan),
    ("pathology", "other, rare", "brain stem", "dice", 1, 0, 0.7, 0.69996, 0.69996),
    ("centre,pathology", "A,spina_bifida", "cerebellum", "dice", 10, 0, 0.9, 0.8, 0.7),
    ("centre,pathology", "A,spina_bifida", "brain stem", "dice", 10, 0, 0.9, 0.8, 0.7),
]

STRATA = pd.DataFrame(ROWS, columns=COLUMNS)


def check(text, strata=STRATA):
    return check_requirements(strata, [parse_requirement(text)])


def test_requirement_says_whether_the_statistic_keeps_the_bound():
    (outcome,) = check("pathology=spina_bifida label=cerebellum p5>=0.70")

    assert not outcome.passed
    assert (outcome.value, outcome.n, outcome.statistic, outcome.metric) == (0.612, 23, "p5", "dice")
    assert outcome.line == "pathology=spina_bifida label=cerebellum: p5 0.612 is not >= 0.70 (23 cases)"


@pytest.mark.parametrize(
    ("condition", "passed"),
    [
        ("p5>=0.612", True), ("p5>0.612", False), ("p5<=0.612", True), ("p5<0.612", False), ("p5>.6", True),
        ("mean>=0.9", False), ("p5_low<6e-1", True), ("n>=20", True), ("n>23", False), ("n_undefined<1", True),
    ],
)  # fmt: skip
def test_every_comparison_and_statistic(condition, passed):
    (outcome,) = check(f"label=cerebellum pathology=spina_bifida {condition}")

    assert outcome.passed is passed


@pytest.mark.parametrize("condition", ["p5>=0.70", "p5 >= 0.70", "p5>= 0.70", "p5 >=0.70"])
def test_condition_may_have_spaces_and_any_place(condition):
    for text in (f"pathology=a {condition} label='brain stem'", f"{condition} pathology=a label='brain stem'"):
        assert parse_requirement(text) == Requirement(text, "p5", ">=", "0.70", "pathology", "a", "brain stem")


def test_names_keep_their_odd_characters():
    parsed = parse_requirement('"größe [mm]=<5 = klein" metric=hd95 p75<=12')

    assert (parsed.attribute, parsed.stratum, parsed.metric) == ("größe [mm]", "<5 = klein", "hd95")


def test_undefined_statistic_never_passes():
    for condition in ("p5>=0", "p5<=1"):
        (outcome,) = check(f"pathology='other, rare' label=cerebellum {condition}")
        assert not outcome.passed
        assert "p5 (undefined) is not" in outcome.line
        assert outcome.line.endswith("(1 case, 1 without a value)")


def test_rounding_never_contradicts_the_verdict():
    (outcome,) = check("pathology='other, rare' label='brain stem' p5>=0.70")

    assert outcome.line == 'pathology="other, rare" label="brain stem": p5 0.69996 is not >= 0.70 (1 case)'


def test_passed_line_and_counts():
    (outcome,) = check("pathology=spina_bifida label='brain stem' n>=10")

    assert outcome.line == 'pathology=spina_bifida label="brain stem": n 23 is >= 10 (23 cases, 2 without a value)'


def test_intersection_is_named_with_commas():
    (outcome,) = check("centre,pathology=A,spina_bifida label=cerebellum p5>=0.8")

    assert outcome.passed
    assert (outcome.attribute, outcome.stratum) == ("centre,pathology", "A,spina_bifida")


def test_without_a_label_every_label_has_to_pass():
    for text in ("pathology=spina_bifida p5>=0.7", "pathology=spina_bifida label=* p5>=0.7"):
        assert [(o.label, o.passed) for o in check(text)] == [("cerebellum", False), ("brain stem", True)]


def test_star_is_every_stratum_of_the_attribute():
    outcomes = check("pathology=* label=cerebellum p5>=0.7")

    assert [(o.attribute, o.stratum) for o in outcomes] == [("pathology", "spina_bifida"), ("pathology", "other, rare")]


def test_without_a_stratum_every_row_has_to_pass():
    assert len(check("p5>=0.7")) == 6
    assert len(check("label=cerebellum p5>=0.7")) == 3


def test_without_a_stratum_every_stratum_and_all_cases_are_meant():
    strata = pd.DataFrame([*ROWS, ("all", "all", "cerebellum", "dice", 40, 0, 0.8, 0.75, 0.7)], columns=COLUMNS)
    outcomes = check("p5>=0.7", strata)

    assert len(outcomes) == 7
    assert outcomes[-1].line == "label=cerebellum: p5 0.750 is >= 0.7 (40 cases)"


def test_metric_is_dice_or_the_only_one():
    distances = STRATA.assign(metric="hd95", p5=12.3456)
    both = pd.concat([STRATA, distances])

    assert {o.metric for o in check("p5>=0.7", both)} == {"dice"}
    assert {o.metric for o in check("p5>=0.7", distances)} == {"hd95"}
    lines = [o.line for o in check("pathology=spina_bifida label=cerebellum metric=hd95 p5<=12", both)]
    assert lines == ["pathology=spina_bifida label=cerebellum metric=hd95: p5 12.346 mm is not <= 12 (23 cases)"]
    with pytest.raises(ValueError, match=r"name one of the metrics hd95, nsd.*Add metric=NAME"):
        check("p5>=0.7", pd.concat([distances, STRATA.assign(metric="nsd")]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "pathology=trisomy p5>=0.7",
            "reported stratum, not 'trisomy'.*: spina_bifida, other, rare, or [*]",
        ),
        ("label=liver p5>=0.7", "reported label, not 'liver'.*cerebellum, brain stem"),
        ("metric=hd95 p5<=7", "reported metric, not 'hd95'.*choose from: dice"),
        ("scanner=X p5>=0.7", "reported attribute, not 'scanner'.*Add --by scanner.*pathology, centre,pathology"),
        ("mean_high>=0.7", "reported statistic, not 'mean_high'"),
        ("p5>=70", "compare dice with a fraction.*0.70 for 70 %"),
    ],
)
def test_requirement_about_what_is_not_there_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        check(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "one condition"),
        ("pathology=a label=b", "one condition"),
        ("p5>=0.7 mean>=0.8", "one condition"),
        (
            "p7>=0.7",
            "statistic of strata.csv, not 'p7'.*Choose from: n, n_undefined, n_missed, n_invented, n_left_out, mean",
        ),
        ("p5>=70%", "a number, not '70%'"),
        ("p5>=nan", "a number, not 'nan'"),
        ("p5>=", "a number, not ''"),
        ("p5=>0.7", "one condition"),
        ("p5==0.7", "one condition"),
        ("cerebellum p5>=0.7", "NAME=VALUE and a condition, not 'cerebellum'"),
        ("label= p5>=0.7", "NAME=VALUE and a condition, not 'label='"),
        ("centre=A pathology=b p5>=0.7", "one attribute at most.*centre,pathology=A,tumour"),
        ("label=a label=b p5>=0.7", "one label at most"),
        ("pathology='a p5>=0.7", "closing quote"),
    ],
)
def test_requirement_written_otherwise_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_requirement(text)


def test_file_has_a_requirement_a_line(tmp_path):
    path = tmp_path / "requirements.txt"
    path.write_text(
        "\ufeff# don't\n\nmean>=0.8  # isn't much\r\n  label='stem #2' site=a#1 p5>=0.7\n", encoding="utf-8"
    )

    first, second = read_requirements(path)

    assert (first.text, first.statistic, first.label) == ("mean>=0.8", "mean", None)
    assert (second.label, second.stratum) == ("stem #2", "a#1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# a comment\nmean>=0.8\np7>=0.7\n", r"Line 3 of '.*wanted\.txt': `requirement` must be about a statistic"),
        ("mean>=0.8\nlabel='a p5>=0.7 # it\n", r"Line 2 of '.*wanted\.txt': .* closing quote"),
        ("# nothing\n", r"at least one requirement, got none in '.*wanted\.txt'"),
    ],
)
def test_unusable_file_is_refused(tmp_path, text, message):
    (tmp_path / "wanted.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_requirements(tmp_path / "wanted.txt")


def test_absent_or_binary_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"wanted\.txt"):
        read_requirements(tmp_path / "wanted.txt")
    (tmp_path / "wanted.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="UTF-8"):
        read_requirements(tmp_path / "wanted.txt")


def test_strata_with_categories_or_numbers_are_matched_as_text():
    strata = STRATA.assign(stratum=[1, 1, 2, 2, 3, 3]).astype({"attribute": "category", "label": "category"})

    assert [o.passed for o in check("pathology=1 p5>=0.7", strata)] == [False, True]
