"""The failures of a comparison in words and as a table."""

from types import SimpleNamespace

import pytest

from nnunet_dro.evaluation.comparing.comparison import compare
from nnunet_dro.evaluation.report.comparison_page import comparison_html
from nnunet_dro.evaluation.report.documents import comparison_markdown, comparison_table
from nnunet_dro.evaluation.report.failure_blocks import failure_sentences, failure_tables
from nnunet_dro.evaluation.report.gains import method_verdicts
from nnunet_dro.evaluation.report.views import StrataView
from tests.evaluation.comparing.test_comparison import evaluation, two
from tests.pages.screen import screen

AFTER = [0.92] * 37 + [0.1] * 7


def first(comparison):
    return failure_sentences(comparison)[0].text


def test_new_failures_are_the_first_line_of_page_terminal_and_markdown():
    comparison = compare(two([0.9] * 44, AFTER), n_resamples=0)

    expected = (
        "Failures (Dice < 50 %), ERM → DRO: one from 0 to 7 of 44 cases "
        "(7 new, 0 recovered, exact McNemar p = 0.016): c37, c38, c39, c40, c41, c42, c43."
    )

    assert first(comparison) == expected
    assert " ".join(screen(comparison_table(comparison)).split()).startswith(expected)
    page = comparison_html(comparison)
    assert page.index("from 0 to 7 of 44") < page.index("<h2>What changed")
    markdown = comparison_markdown(comparison).splitlines()
    assert markdown[2].startswith(
        "Failures (Dice &lt; 50 %), ERM → DRO: one from 0 to 7 of 44 cases"
    )


def test_strata_with_failures_are_listed_with_names():
    by = {"centre": ["A", "A", "B"], "all": ["all"] * 3}
    comparison = compare(two([0.9, 0.9, 0.1], [0.1, 0.1, 0.9], by=by), n_resamples=0)

    (table,) = failure_tables(comparison)

    rows = [[cell.text for cell in row] for row in table.rows]
    assert rows == [
        ["one", "all cases", "3", "1", "2", "2", "1", "1.000", "c00, c01"],
        ["one", "A (centre)", "2", "0", "2", "2", "0", "0.500", "c00, c01"],
        ["one", "B (centre)", "1", "1", "0", "0", "1", "1.000", ""],
    ]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({}, "one from 0 to 2 of 3 cases (2 new, 0 recovered, exact McNemar p = 0.500): c00, c02."),
        # A patient with a failure in both centres is one patient.
        (
            {"options": {"patient": "who"}, "who": ["x", "y", "x"]},
            "one from 0 to 1 of 2 patients (1 new, 0 recovered, exact McNemar p = 1.000): x.",
        ),
    ],
)
def test_without_all_cases_every_case_and_patient_counts_once(columns, expected):
    by = {"centre": ["A", "A", "B"], "sex": ["f", "m", "f"]}
    comparison = compare(two([0.9] * 3, [0.1, 0.9, 0.1], by=by, **columns), n_resamples=0)
    assert first(comparison).endswith(expected)


def test_a_label_without_a_name_is_called_by_its_number():
    methods = {name: evaluation({"2": [dice]}) for name, dice in (("ERM", 0.9), ("DRO", 0.1))}
    assert "ERM → DRO: label 2 from 0 to 1 of 1 case" in first(compare(methods, n_resamples=0))


def test_no_failure_is_said_too():
    assert first(compare(two([0.9], [0.9]), n_resamples=0)) == (
        "No failure (Dice < 50 %) with ERM or DRO, of 1 case."
    )


def test_several_trainings_have_failures_in_all_of_them_and_no_test():
    trained = [evaluation([0.1, 0.9]), evaluation([0.1, 0.1])]
    assert first(compare({"old": trained, "new": trained}, n_resamples=0)).endswith(
        "one from 3 to 3 of 2 cases, in all trainings together."
    )


def test_distances_that_worsen_are_in_the_summary_and_a_finding():
    cases = 20
    before = evaluation([0.9] * cases, hd95=[1.0 + n / 100 for n in range(cases)])
    after = evaluation([0.9] * cases, hd95=[6.0 + n / 50 for n in range(cases)])

    (verdict,) = method_verdicts(compare({"old": before, "new": after}, n_resamples=100))

    assert "the mean HD95 improves in 0 and worsens in 1 of 1" in verdict.summary
    assert "One in all cases loses most by HD95" in [note.title for note in verdict.findings]


def test_fall_of_the_tail_is_a_finding_before_any_gain():
    comparison = compare(two([0.9 + n / 1000 for n in range(44)], AFTER), n_resamples=100)

    loss, fall, *others = method_verdicts(comparison)[0].findings

    assert loss.title == "One in all cases loses most"
    assert fall.title == "One in all cases falls most in its 5th percentile"
    assert "worse" not in [finding.tone for finding in others]
    assert fall.tone == "worse"
    assert float(fall.value.split()[0].replace("−", "-")) < -75
    assert "chance" not in fall.text


@pytest.mark.parametrize(
    ("verdicts_of_all", "expected"),
    [
        (
            ["not met", "met", "cannot tell"],
            ["1 of 3 requirements not met, 1 cannot be told."],
        ),
        (["met", "met"], ["All of 2 requirements met."]),
        (["met"], ["1 requirement met."]),
        ([], []),
    ],
)
def test_requirements_are_counted_on_top(verdicts_of_all, expected):

    records = [{"passed": word == "met", "verdict": word, "line": "a"} for word in verdicts_of_all]
    run = SimpleNamespace(about={"requirements": records})
    assert [text.text for text in StrataView(run, failure=None).requirement_count] == expected


@pytest.mark.parametrize("change", [-1e-4, 1e-4])
def test_a_change_that_is_printed_as_nothing_is_no_finding(change):
    before = [0.8 + n / 100 for n in range(10)]
    after = [value + change for value in before]

    (verdict,) = method_verdicts(compare(two(before, after), n_resamples=100))

    assert verdict.findings == ()
