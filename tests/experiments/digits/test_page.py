import pandas as pd
import pytest

from experiments.digits.experiment import page_text, verdict
from experiments.digits.figure import draw_curves
from experiments.digits.plan import planned_runs
from tests.experiments.digits.made_epochs import made_epochs

RUN = planned_runs([0], quick=False)[0]


@pytest.mark.parametrize(
    ("lows", "reached", "expected"),
    [
        ([-1, 2, 2, 1], True, "a gain that remains"),
        ([-1, 2, 2, 1], False, "a gain, but ERM has not reached its plateau"),
        ([-1, 2, 2, -1], True, "a gain of speed only"),
        ([-1, -1, -1, -1], True, "no gain"),
        ([-1, 2, 2, -9], True, "a loss"),
        ([float("nan")] * 4, True, "a difference without interval"),
    ],
)
def test_verdict_asks_for_the_last_quarters_interval_and_erms_plateau(lows, reached, expected):
    rows = pd.DataFrame({"low": lows, "high": [low + 5 for low in lows]})
    assert verdict(rows, reached=reached) == expected


def test_page_of_one_seed_and_one_share_has_no_intervals():
    text = page_text(
        made_epochs(lambda method, seed, epoch: 50.0, seeds=(0,), kept=(5.0,)), RUN, pd.DataFrame()
    )
    left = "**a difference without interval** (beta 10 and beta 100)"

    assert f"- With 5 % of the 3s kept, there is {left}." in text
    assert "| 5 % | beta 100 | +0.0 | 0.0 | +0.0 |" in text
    assert "nan" not in text


def test_figure_has_four_panels_for_each_share_and_a_line_for_each_method():
    figure = draw_curves(made_epochs(lambda method, seed, epoch: epoch, kept=(1.0, 5.0)))
    assert len(figure.axes) == 8
    # Three seeds and their mean, of three methods; and what the sampler has of each.
    assert [len(axes.lines) for axes in figure.axes] == [12, 12, 15, 15] * 2
    assert [text.get_text() for text in figure.legends[0].get_texts()][::2] == [
        "ERM",
        "beta 10",
        "beta 100",
    ]
