"""What the files of a ranking show: names as they are, every section, and nothing of cases where
none is wanted."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from nnunet_dro.pages.html import page_assets
from nnunet_dro.pages.svg import N_COLOURS
from nnunet_dro.ranking.figures import Stop, blob_plot, bump_chart
from nnunet_dro.ranking.page import ranking_files
from nnunet_dro.ranking.podium import MOST_TEAMS
from nnunet_dro.ranking.ranking import rank_evaluations
from nnunet_dro.ranking.ranks import kendall_tau
from nnunet_dro.ranking.stability import consensus_shares
from nnunet_dro.ranking.tables import ranking_table, wins_table
from tests.pages.drawn_dots import drawn_dots
from tests.pages.screen import screen
from tests.ranking.made import evaluation_of, random_evaluations

ODD_NAMES = ["<b>bold</b> & [red]x[/]", "pipe|star*team", "a" * 90, "ümlaut\x1b[31m"]


def terminal(ranking):
    return screen(ranking_table(ranking), highlight=False)


@pytest.fixture(scope="module")
def odd():
    teams = random_evaluations(
        4, 12, metrics=("dice", "hd95"), labels=("liver", "<i>"), names=ODD_NAMES
    )
    return rank_evaluations(teams, by=["centre"], n_resamples=30)


@pytest.fixture(scope="module")
def twenty():
    return rank_evaluations(
        random_evaluations(20, 12), by=["centre"], n_resamples=30, aggregate_only=True
    )


@pytest.mark.parametrize(("size", "unit"), [(np.nan, "px"), (2.0, "mm")])
def test_distances_without_a_voxel_size_are_in_pixels(size, unit):
    teams = random_evaluations(2, 12, metrics=("hd95",))
    teams = {
        name: replace(team, scores=team.scores.assign(reference_ml=size))
        for name, team in teams.items()
    }

    page = ranking_files(rank_evaluations(teams, n_resamples=30))["report.html"]

    assert f"HD95 ({unit}), median" in page
    assert ("HD95 (mm)" in page) == (unit == "mm")


def test_files_hold_what_they_say_and_names_as_they_are(odd):
    files = ranking_files(odd)
    assert "<b>bold" not in files["report.html"]
    assert "&lt;b&gt;bold" in files["report.html"]
    assert "<i>" not in files["report.html"]
    assert "pipe\\|star\\*team" in files["report.md"]
    assert "<b>" not in files["report.md"]

    printed = terminal(odd)
    assert "<b>bold</b> & [red]x[/]" in printed
    assert "\x1b" not in printed

    summary = json.loads(files["summary.json"], parse_constant=lambda name: pytest.fail(name))
    assert summary["format"] == "nnunet-dro ranking 1"
    assert sorted(summary["teams"]) == sorted(ODD_NAMES)
    assert len(summary["ranking"]) == 4 * 5

    assert files["bootstrap.csv"].startswith(
        "scheme,team,rank,rank_low,rank_median,rank_high,share_1,share_2,share_3,share_4\n"
    )
    assert files["ranks.csv"].count("\n") == len(odd.ranks) + 1

    won = odd.tests[odd.tests["significant"]].groupby(["better", "worse"]).size()
    for team, row in zip(odd.teams, wins_table(odd).rows, strict=True):
        others = [str(won.get((team, other), 0)) if other != team else "" for other in odd.teams]
        assert [cell.text for cell in row] == [
            f"{odd.teams.index(team) + 1}.\N{NO-BREAK SPACE}{team}",
            *others,
        ]


def test_twenty_teams_fit_and_aggregate_only_names_no_case(twenty, odd):
    lines = terminal(twenty).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 35
    assert len([line for line in lines if re.match(r" *\d+  team", line)]) == 20
    for content in ranking_files(twenty).values():
        assert "case_0" not in content
        assert drawn_dots(content) == []
    assert "cases.csv" not in ranking_files(twenty)

    page = ranking_files(odd)["report.html"]
    assert "case_003" in page
    assert drawn_dots(page) != []


def test_without_samples_there_is_no_stability():
    ranking = rank_evaluations(random_evaluations(3), n_resamples=0)
    files = ranking_files(ranking)

    assert 'id="stability"' not in files["report.html"]
    assert "95 % of ranks" not in files["report.html"]
    assert "first in" not in terminal(ranking)


def test_charts_of_ranks_and_blobs():
    stops = [Stop("all", "n = 4", np.array([1.0, 2, 2])), Stop("A", "n = 2", np.array([2.0, 1, 2]))]
    svg = str(bump_chart(["a", "b", "c"], stops, label="ranks").drawing)

    heights = [
        [point.split(",")[1] for point in points.split()]
        for points in re.findall(r'points="([^"]+)"', svg)
    ]

    # Drawn last to first: c, b, a. In the second column a and c share rank 2.
    assert len({way[0] for way in heights}) == len({way[1] for way in heights}) == 3
    assert heights[2][0] == heights[1][1]
    assert svg.count(", rank 2</title>") == 4

    stops = [Stop("all", "", np.array([1.0, 2])), Stop("A", "", np.array([np.nan, np.nan]))]
    assert str(bump_chart(["a", "b"], stops, label="ranks").drawing).count("<circle") == 2

    figure = blob_plot(
        ["a", "b"], np.array([[0.75, 0.25], [0.25, 0.75]]), [(1, 1, 2), (1, 2, 2)], label="blobs"
    )
    radii = [float(r) for r in re.findall(r' r="([\d.]+)"', str(figure.drawing))]

    assert radii[0] ** 2 / radii[1] ** 2 == pytest.approx(3, rel=0.01)


def test_no_two_teams_share_a_colour(twenty):
    style = page_assets()["style"]
    colours = dict(re.findall(r"\.s(\d+) \{ --c: ([^;]+); \}", style))
    assert len(colours) == N_COLOURS
    assert len(set(colours.values())) == N_COLOURS

    page = ranking_files(twenty)["report.html"]
    marks = set(re.findall(r'class="rank (\w+)"', page))
    assert marks == {f"s{team}" for team in range(20)}


def test_podiums_are_the_ranks_in_the_cases():
    teams = {
        name: evaluation_of(name, {"dice": {"liver": values}})
        for name, values in {"a": [0.9, 0.8, 0.2, 0.5], "b": [0.7, 0.9, 0.1, 0.5]}.items()
    }
    ranking = rank_evaluations(teams, n_resamples=0)

    # The last case is a tie for the first rank.
    shares = ranking.podium.set_index("team")[["share_1", "share_2"]]
    assert shares.loc["a"].tolist() == [0.75, 0.25]
    assert shares.loc["b"].tolist() == [0.5, 0.5]

    page = ranking_files(ranking)["report.html"]
    assert page.count('<polyline class="thread"') == 4
    assert page.count('<circle class="result s0"') == 4 + 1  # and the legend
    heights = [float(height) for height in re.findall(r'"share s0".*?height="([\d.]+)"', page)]
    assert heights[0] / heights[1] == pytest.approx(3, rel=0.01)

    hidden = rank_evaluations(teams, n_resamples=0, aggregate_only=True)
    assert 'class="share s0"' in ranking_files(hidden)["report.html"]
    assert 'class="thread"' not in ranking_files(hidden)["report.html"]


def test_podiums_without_a_case_have_no_bars():
    """Every reference has the label, so that no prediction of it is a false positive."""
    nothing = {"dice": {"liver": [0.5]}, "false_positive_volume": {"liver": [np.nan]}}
    teams = dict.fromkeys("ab", evaluation_of("a", nothing))
    assert rank_evaluations(teams, n_resamples=0).podium["share_1"].tolist() == [1, 1, 0, 0]


def test_of_many_teams_the_first_are_on_the_podium(twenty):
    assert twenty.podium["team"].tolist() == list(twenty.teams[:MOST_TEAMS])
    shares = twenty.podium.filter(like="share_")
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_the_consensus_has_the_weights_of_the_rankings(odd):
    ranks = np.array([[1, 2], [2, 1], [1, 1], [np.nan, np.nan]])
    shares = consensus_shares(ranks, np.array([1, 2, 1, 5]))
    assert shares.tolist() == [[0.5, 0.5], [0.75, 0.25]]

    page = ranking_files(odd)["report.html"]
    assert "Agreement with the consensus" in page
    rows = odd.agreement[odd.agreement["kind"].isin(["metric", "label", "task"])]
    assert len(rows) == 5 * (2 + 2 + 4)
    row = rows[(rows["kind"] == "metric") & (rows["metric"] == "dice")].iloc[0]
    alone = rank_evaluations(
        random_evaluations(
            4, 12, metrics=("dice", "hd95"), labels=("liver", "<i>"), names=ODD_NAMES
        ),
        n_resamples=0,
        metric_weights=["hd95=0"],
    )
    own = alone.overall().reindex(list(odd.teams)).to_numpy()
    expected = kendall_tau(own[None], odd.overall().to_numpy())[0]
    assert row["kendall_tau"] == pytest.approx(expected)


def test_weights_and_small_numbers_of_cases_are_told():
    ranking = rank_evaluations(
        random_evaluations(3, 24, labels=("liver", "tumour")),
        by=["centre"],
        n_resamples=20,
        label_weights=["tumour=2"],
    )
    page = ranking_files(ranking)["report.html"]
    assert "Weights: tumour=2; others have the weight 1" in page
    assert "Fewer than 10 cases with a value, of which ranks say little: B, C." in page
    assert '<th scope="colgroup" colspan="1" class="span">Rank by worst</th>' in page
    few = rank_evaluations(random_evaluations(2, 9), n_resamples=20)
    words = "Samples of fewer than 10 cases with a value say little of how sure the ranks are."
    assert [words in ranking_files(made)["report.md"] for made in (ranking, few)] == [False, True]


def test_cases_and_samples_without_a_value_are_not_counted():
    """Of 12 cases, 10 have no tumour and none predicted: 3 of 20 samples draw nothing else."""
    evaluation = evaluation_of(
        "a",
        {"dice": {"tumour": [*[np.nan] * 10, 0.9, 0.8]}},
        missed=range(10),
        absent=range(10),
        columns={"centre": [*"AAAAAABBBBAA"]},
        attributes=["centre"],
    )
    ranking = rank_evaluations(dict.fromkeys("ab", evaluation), by=["centre"], n_resamples=20)
    text = ranking_files(ranking)["report.md"]

    assert ranking.n_valued == {("all", "all"): 2, ("centre", "A"): 2, ("centre", "B"): 0}
    assert "Of 17 bootstrap samples (3 others without a value), rank 1 goes to a" in text
    assert "Samples of fewer than 10 cases with a value say little" in text


@pytest.mark.parametrize(("patient", "n", "title"), [(None, 2, "Cases"), ("who", 1, "Patients")])
def test_stability_counts_what_has_a_value(patient, n, title):
    evaluation = evaluation_of(
        "a",
        {"dice": {"tumour": [*[np.nan] * 10, 0.9, 0.8], "liver": [0.9] * 12}},
        missed=range(10),
        absent=range(10),
        columns={"who": [*"abcdefghijkk"]},
        patient=patient,
    )
    ranking = rank_evaluations(dict.fromkeys("ab", evaluation), n_resamples=20)

    n_valued = dict(zip(ranking.parts["label"], ranking.parts["n_valued"], strict=True))
    assert n_valued == {"tumour": n, "liver": 10 + n}
    assert f"{title} with a value</th>" in ranking_files(ranking)["report.html"]


@pytest.mark.parametrize("aggregate_only", [False, True])
def test_the_page_opens_without_errors_and_requests(open_page, aggregate_only):
    ranking = rank_evaluations(
        random_evaluations(3), by=["centre"], n_resamples=20, aggregate_only=aggregate_only
    )
    page = open_page(ranking_files(ranking)["report.html"], width=400)

    page.check()

    assert len(page.all("#casetable tbody tr")) == (0 if aggregate_only else 12)

    page.one("#theme").click()
    assert page.run("return document.documentElement.dataset.theme") == "dark"
