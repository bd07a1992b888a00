import pandas as pd
import pytest

from experiments.digits.experiment import VERDICTS, page_text, verdict
from experiments.digits.figure import draw_curves
from experiments.digits.plan import planned_runs
from tests.experiments.digits.made_epochs import made_epochs

RUN = planned_runs([0], quick=False)[0]


@pytest.mark.parametrize(
    ("lows", "reached", "expected"),
    [
        ([-1, 2, 2, 1], True, "remains"),
        ([-1, 2, 2, 1], False, "open"),
        ([-1, 2, 2, -1], True, "speed"),
        ([-1, -1, -1, -1], True, "none"),
        ([-1, 2, 2, -9], True, "loss"),
        ([float("nan")] * 4, True, "single"),
    ],
)
def test_verdict_asks_for_the_interval_of_the_last_quarter_and_for_erms_plateau(lows, reached, expected):
    rows = pd.DataFrame({"low": lows, "high": [low + 5 for low in lows]})
    assert verdict(rows, reached=reached) == expected
    assert expected in VERDICTS


def page_of(rare, **others):
    return page_text(made_epochs(rare, kept=(1.0, 5.0), n_epochs=16, **others), RUN)


def first_sentence(text):
    return text.split("\n")[0]


def fitted(method, seed, epoch):
    return 0.01


def test_page_says_first_what_is_left_at_the_end():
    def late(method, seed, epoch):
        # Beta 10 is faster, and beta 100 better.
        return {"ERM": 0 if epoch <= 8 else 60, "beta 10": 60, "beta 100": 70}[method] + 0.1 * seed

    text = page_of(late, rare_loss=fitted)
    left = "**a gain of speed only** (beta 10) and **a gain that remains** (beta 100)"
    assert first_sentence(text) == (
        f"**In short:** at the end there is {left} with 1 % of the 3s, and {left} with 5 % of the 3s."
    )
    assert (
        "ERM has reached its plateau: from the third to the last quarter its accuracy on them changes by\n  +0.0"
        in text
    )


def test_page_says_that_erm_still_rises():
    def rising(method, seed, epoch):
        return epoch + (10 if method != "ERM" else 0) + 0.1 * seed

    text = page_of(rising, rare_loss=fitted)
    assert "a gain, but ERM has not reached its plateau** (beta 10 and beta 100) with" in first_sentence(text)
    assert "ERM has not reached its plateau: from the third" in text
    assert "beta 10 with 1 % (+4.0 points, loss 0.010)" in text


def test_page_compares_beta_10_with_the_points_of_each_paper():
    def twelve(method, seed, epoch):
        return 50 + (12 if method == "beta 10" else 0) + 0.1 * seed

    assert (
        "+12.0 points [+12.0, +12.0] against ERM: more than the 10 of 2020, not more than the 15 of 2022."
        in page_of(twelve)
    )


def test_page_says_where_the_training_loss_is_stable():
    def overall(method, seed, epoch):
        # Every second epoch falls by two points.
        return 80 - (2 + 0.01 * seed) * (epoch % 2) if method == "beta 100" else 80

    def loss(method, seed, epoch):
        return epoch % 2

    text = page_of(lambda method, seed, epoch: 50 + 0.1 * seed, overall=overall, loss=loss)
    assert "With 1 %, beta 100 is less stable than ERM on the test images." in text
    assert "the mean training loss is stable with no method in evaluation mode and with beta 100 as last drawn" in text


def test_page_of_one_seed_and_one_share_has_no_intervals():
    text = page_text(made_epochs(lambda method, seed, epoch: 50.0, seeds=(0,), kept=(5.0,)), RUN)
    left = "**a difference without interval** (beta 10 and beta 100) with 5 % of the 3s."
    assert first_sentence(text) == f"**In short:** at the end there is {left}"
    assert "nan" not in text


def test_figure_has_four_panels_for_each_share_and_a_line_for_each_method():
    figure = draw_curves(made_epochs(lambda method, seed, epoch: epoch, kept=(1.0, 5.0)))
    assert len(figure.axes) == 8
    # Three seeds and their mean, of three methods; and what the sampler has of each.
    assert [len(axes.lines) for axes in figure.axes] == [12, 12, 15, 15] * 2
    assert [text.get_text() for text in figure.legends[0].get_texts()][::2] == ["ERM", "beta 10", "beta 100"]
