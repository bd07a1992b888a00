"""The page of an exploration: names as they are, a picture of what was confirmed, every dot its
case."""

from dataclasses import replace

import pytest

from nnunet_dro.exploration.exploration import explore_evaluation
from nnunet_dro.exploration.page import exploration_files
from nnunet_dro.exploration.tables import exploration_table
from tests.exploration.made import made
from tests.pages.screen import screen
from tests.ranking.made import evaluation_of


def terminal(exploration):
    return screen(exploration_table(exploration), highlight=False)


@pytest.fixture(scope="module")
def found():
    return explore_evaluation(
        made(200, effect=0.15, metric="hd95", labels=("liver", "spleen"), missed=(3, 4))
    )


def test_distances_without_a_voxel_size_are_in_pixels_and_fit_a_terminal(found):
    assert "Mean (mm)" in terminal(found)
    assert "When found" not in terminal(found), "a narrow terminal explains what it does not show"
    assert max(map(len, terminal(found).splitlines())) <= 80

    evaluation = made(200, effect=0.15, metric="hd95")
    evaluation = replace(evaluation, scores=evaluation.scores.assign(reference_ml=float("nan")))
    in_pixels = explore_evaluation(evaluation)

    assert "Mean (px)" in terminal(in_pixels)
    assert "(mm)" not in exploration_files(in_pixels)["report.html"]


def test_names_with_markup_are_shown_as_they_are():
    strata = ["<b>x</b>", "[red]y[/]"] * 20
    values = {
        "dice": {"<i>": [0.2 + 0.001 * n if n % 2 == 0 else 0.8 + 0.001 * n for n in range(40)]}
    }
    evaluation = evaluation_of(
        "dro", values, columns={"a\x1b[31m": strata}, attributes=["a\x1b[31m"]
    )
    exploration = explore_evaluation(evaluation)

    page = exploration_files(exploration)["report.html"]

    assert "&lt;b&gt;x" in page
    assert "<b>x" not in page
    assert "<i>" not in page

    printed = terminal(exploration)
    assert "<b>x</b>" in printed
    assert "\x1b" not in printed


def test_the_picture_shows_the_tested_half_of_a_combination_and_its_rest(found, open_page):
    page = open_page(exploration_files(found)["report.html"])
    page.check()

    assert len(page.all("#pictures figure")) == len(found.confirmed) > 0

    row = found.confirmed.iloc[0]
    names = "return [...document.querySelector('#pictures figure').querySelectorAll('.name')].map(e => e.textContent)"
    others = ["other cases of centre=A", "other cases of scanner=X", "all others"]

    assert page.run(names) == ["centre=A × scanner=X", *others]

    # The script parts the dots of a figure where a pointer comes.
    page.run(
        "document.querySelector('#pictures figure svg').dispatchEvent(new PointerEvent('pointerover'))"
    )
    n_dots = page.run(
        "return document.querySelector('#pictures figure').querySelectorAll('.dot').length"
    )
    assert n_dots == row["n_test"] + row["n_rest_test"]

    dot = page.one("#pictures figure .dot")
    page.scroll_to(dot)
    page.run("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", dot)

    assert "tested" in page.text("#casetable tr.chosen")
