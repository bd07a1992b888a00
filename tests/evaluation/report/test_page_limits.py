"""What pages and the terminal leave out of large evaluations, and that they say so."""

import re
from dataclasses import replace

import numpy as np
import pytest

from nnunet_dro.evaluation.comparing.comparison import compare
from nnunet_dro.evaluation.report import (
    comparison_html,
    documents,
    evaluation_html,
    page_parts,
)
from nnunet_dro.evaluation.report.documents import (
    comparison_table,
    evaluation_markdown,
    evaluation_table,
)
from nnunet_dro.evaluation.report.page_parts import worst_labels
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise
from tests.evaluation.comparing.test_comparison import evaluation
from tests.pages.browser import payload
from tests.pages.drawn_dots import drawn_dots
from tests.pages.screen import screen

LABELS = [f"label_{n}" for n in range(10)]


@pytest.fixture(scope="module")
def large():
    """30 cases of 10 labels in two centres; label_n is the worse the larger n is, and worst in B."""
    worse = 0.1 * np.array([0, 1] * 15) + np.arange(30) * 1e-3
    dice = {label: 0.95 - 0.05 * n - worse for n, label in enumerate(LABELS)}
    return evaluation(dice, by={"centre": ["A", "B"] * 15}, n_intersection=5, reference_ml=1.0)


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(page_parts, "MOST_STRATA_ROWS", 6)
    monkeypatch.setattr(page_parts, "MOST_DOTS", 60)
    monkeypatch.setattr(page_parts, "MOST_CASE_ROWS", 100)
    monkeypatch.setattr(documents, "MOST_PRINTED_ROWS", 4)
    monkeypatch.setattr(documents, "_MOST_FINDINGS", 2)


def test_the_worst_labels_fill_the_room_and_the_others_are_counted(large):
    assert worst_labels(large.strata, large.worst, "centre", most_rows=20) == (LABELS, "")

    labels, left_out = worst_labels(large.strata, large.worst, "centre", most_rows=7)
    said = "Of 10 labels, the 3 are shown whose worst stratum has the lowest mean of Dice; strata.csv has all."

    assert (labels, left_out) == (LABELS[-3:], said)

    labels, left_out = worst_labels(large.strata, large.worst, "centre", most_rows=1)
    assert labels == LABELS[-1:]
    assert "one is shown whose worst" in left_out


def test_a_small_page_shows_all(large):
    page = evaluation_html(large)
    assert "Of 10 labels" not in page
    assert len(payload(page)["columns"][0]["codes"]) == 300
    assert "A row per case and label, worst first. Choose" in page


def test_a_large_page_shows_the_worst_and_every_dot_finds_its_case(large, small_limits):
    page = evaluation_html(large).replace("<wbr>", "")

    assert "Of 10 labels, the 3 are shown" in page

    tables = re.findall(r'<table class="strata">.*?</table>', page, re.DOTALL)
    assert set(re.findall(r"label_\d", " ".join(tables))) == set(LABELS[-3:])
    assert "of 300 rows those that the figures show and the worst of the others" in page

    cases, labels, _, dice, *_ = payload(page)["columns"]
    assert len(cases["codes"]) == 100

    figures = page.split('<section id="volumes">')[0].split("<figure>")[1:]
    drawn = 0
    for label, figure in zip([label for label in LABELS[-3:] for _ in "dq"], figures, strict=True):
        for row, *_ in drawn_dots(figure):
            drawn += 1
            name = cases["names"][cases["codes"][row]]
            its_label = labels["names"][labels["codes"][row]]
            assert its_label == label
            expected = large.scores[
                (large.scores["case"] == name) & (large.scores["label"] == label)
            ]["dice"].iloc[0]
            assert dice["values"][row] == pytest.approx(100 * expected, abs=1e-3)

    assert drawn == 3 * 2 * 15
    # The rest of the table is the worst of the others.
    assert min(dice["values"]) == pytest.approx(100 * large.scores["dice"].min(), abs=1e-3)


def test_the_terminal_shows_the_worst_and_markdown_all(large, large_comparison, small_limits):
    shown = screen(evaluation_table(large), width=200)

    assert "Of 10 labels, the 2 are shown" in shown
    assert "The other 8 findings are in report.md." in shown
    assert "label_0" not in shown
    assert all(label.replace("_", r"\_") in evaluation_markdown(large) for label in LABELS)
    assert page_parts.MOST_PRINTED_ROWS > 100

    shown = screen(comparison_table(large_comparison), width=150)
    assert "Of 10 labels, the 2 are shown with the largest difference" in shown
    assert "label_9" in shown
    assert "label_3" not in shown


@pytest.fixture(scope="module")
def large_comparison(large):
    """The method gains on the labels above 7, most on label_9, and changes nothing else."""
    number = large.scores["label"].str.removeprefix("label_").astype(int)
    better = large.scores.assign(
        dice=large.scores["dice"] + np.where(number > 7, 0.02 * (number - 7), 0.0)
    )
    after = replace(
        large,
        scores=better,
        strata=summarise(better, large.stratum_of_case, n_resamples=0),
        method="new",
    )
    return compare({"old": large, "new": after}, n_resamples=0)


def test_a_comparison_shows_the_labels_that_changed_most(large_comparison, monkeypatch):
    whole = comparison_html(large_comparison).replace("<wbr>", "")
    assert "are shown with the largest difference" not in whole

    monkeypatch.setattr(page_parts, "MOST_STRATA_ROWS", 4)
    page = comparison_html(large_comparison).replace("<wbr>", "")

    assert (
        "Of 10 labels, the 2 are shown with the largest difference of a stratum&#39;s mean Dice"
        in page
    )
    assert set(re.findall(r'<th scope="rowgroup"[^>]*><span>(label_\d)</span>', page)) == {
        "label_8",
        "label_9",
    }
    assert set(re.findall(r'<th scope="rowgroup"[^>]*><span>(label_\d)</span>', whole)) == set(
        LABELS
    )


def test_a_comparison_s_cases_are_those_that_changed_most(large_comparison, monkeypatch):
    monkeypatch.setattr(page_parts, "MOST_CASE_ROWS", 30)
    page = comparison_html(large_comparison).replace("<wbr>", "")

    assert (
        "Of 300 rows, the 30 that changed most are here; scores.csv of each method has all." in page
    )
    assert "30 cases" in page, "the head counts all cases"

    _, labels, *_ = payload(page)["columns"]
    assert [labels["names"][code] for code in labels["codes"]] == ["label_9"] * 30
