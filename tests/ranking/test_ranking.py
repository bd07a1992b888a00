"""Rankings of evaluations: what is aligned, ranked per stratum and left out, and what the tables
say."""

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.choices import RankingScheme
from nnunet_dro.ranking.frames import OVERALL, RANK_COLUMNS
from nnunet_dro.ranking.ranking import rank_evaluations
from tests.ranking.made import evaluation_of, random_evaluations


def ranks(ranking, scheme="mean", metric=OVERALL, label=OVERALL, **columns):
    rows = ranking.ranks
    for column, entry in (
        {"kind": "all", "scheme": scheme, "metric": metric, "label": label} | columns
    ).items():
        rows = rows[rows[column] == entry]
    return rows.set_index("team")["rank"].to_dict()


def test_ranks_of_all_cases_of_strata_and_without_each_of_them():
    """Dice by centre: A 0.9, B 0.5; then A 0.8, B 0.8; then A 0.5, B 0.9; three cases of A, one of
    B."""
    dice = {
        "specialist": [0.9, 0.9, 0.9, 0.5],
        "even": [0.8, 0.8, 0.8, 0.8],
        "other": [0.5, 0.5, 0.5, 0.9],
    }
    columns = {"centre": ["A", "A", "A", "B"]}
    teams = {
        team: evaluation_of(team, {"dice": {"liver": v}}, columns=columns)
        for team, v in dice.items()
    }

    ranking = rank_evaluations(teams, by=["centre"], n_resamples=0)

    # Means 0.8, 0.8, 0.6: the first two share the first rank.
    assert ranks(ranking) == {"specialist": 1, "even": 1, "other": 3}
    assert ranks(ranking, kind="stratum", stratum="A") == {"specialist": 1, "even": 2, "other": 3}
    assert ranks(ranking, kind="stratum", stratum="B") == {"other": 1, "even": 2, "specialist": 3}
    # 0.5, 0.8 and 0.5 in their worst centres.
    assert ranks(ranking, kind="worst") == {"even": 1, "specialist": 2, "other": 2}
    assert ranks(ranking, kind="without", stratum="A") == ranks(
        ranking, kind="stratum", stratum="B"
    )
    assert ranks(ranking, kind="without", stratum="B") == ranks(
        ranking, kind="stratum", stratum="A"
    )
    assert ranking.strata == {"centre": {"A": 3, "B": 1}}

    # Of the pairs of teams only that of the first two is tied, and the others are in the opposite
    # order.
    agreement = ranking.agreement.set_index(["scheme", "kind", "stratum"])["kendall_tau"]
    assert agreement["mean", "without", "A"] == pytest.approx(-2 / np.sqrt(2 * 3))
    assert agreement["mean", "without", "B"] == pytest.approx(2 / np.sqrt(2 * 3))

    row = ranking.cases.set_index("case").loc["case_003"]
    assert row[["dice_best", "dice_median", "dice_worst", "centre"]].tolist() == [
        0.9,
        0.8,
        0.5,
        "B",
    ]


def teams_of(metric, missed=(), **values):
    """Evaluations of teams by their values; in these cases the first misses the label."""
    return {
        team: evaluation_of(team, {metric: {"liver": of_team}}, missed=() if n else missed)
        for n, (team, of_team) in enumerate(values.items())
    }


@pytest.mark.parametrize(
    ("teams", "expected"),
    [
        # Smaller distances are better.
        (teams_of("hd95", near=[1.0, 2.0], far=[3.0, 4.0]), {"near": [1.5, 1], "far": [3.5, 2]}),
        # A missed label is last, and the largest distance in the mean.
        (
            teams_of("hd95", misses=[np.nan, 1.0], far=[9.0, 3.0], near=[2.0, 2.0], missed=[0]),
            {"misses": [(9 + 1) / 2, (3 + 1) / 2], "far": [6, (2 + 3) / 2], "near": [2, 1.5]},
        ),
        # A value that lacks for an unknown reason is last.
        (
            teams_of("dice", unknown=[np.nan, 0.9], known=[0.1, 0.8]),
            {"unknown": [0.45, 1.5], "known": [0.45, 1.5]},
        ),
    ],
)
def test_scores_are_means_and_mean_ranks(teams, expected):
    ranking = rank_evaluations(teams, n_resamples=20)
    rows = ranking.ranks[ranking.ranks["metric"] != OVERALL].set_index(["scheme", "team"])["score"]

    assert {team: [rows["mean", team], rows["rank-mean", team]] for team in teams} == expected
    if "near" in teams:
        assert {ranks(ranking, scheme.value)["near"] for scheme in RankingScheme} == {1}
    if "misses" in teams:
        assert any("1 score" in note and "rank is the last" in note for note in ranking.notes)


def test_a_case_without_a_value_in_any_team_does_not_count():
    ranking = rank_evaluations(teams_of("dice", a=[np.nan, 0.9], b=[np.nan, 0.8]), n_resamples=20)
    assert ranks(ranking) == {"a": 1, "b": 2}
    assert any("1 combination" in note for note in ranking.notes)
    assert ranking.tests["n"].tolist() == [1, 1]
    with pytest.raises(ValueError, match="some team has a value"):
        rank_evaluations(teams_of("dice", a=[np.nan], b=[np.nan]))


def test_the_overall_rank_is_that_of_the_mean_rank_over_metrics_and_labels():
    teams = random_evaluations(5, 16, metrics=("dice", "hd95"), labels=("liver", "tumour"))
    ranking = rank_evaluations(teams, by=["centre"], n_resamples=10)
    of_all = ranking.ranks[
        (ranking.ranks["kind"] == "all") & (ranking.ranks["scheme"] == "rank-mean")
    ]
    by_task = of_all[of_all["metric"] != OVERALL].groupby("team")["rank"].mean()

    overall = of_all[of_all["metric"] == OVERALL].set_index("team")

    pd.testing.assert_series_equal(
        overall["score"], by_task.reindex(overall.index), check_names=False
    )
    assert overall["rank"].tolist() == by_task.reindex(overall.index).rank(method="min").tolist()
    assert list(ranking.ranks.columns) == list(RANK_COLUMNS)
    # Schemes; all, three strata, the worst and three left out; four tasks and all of them; teams.
    assert len(ranking.ranks) == 5 * (1 + 3 + 1 + 3) * 5 * 5
    assert len(ranking.tests) == 4 * 5 * 4


def test_tables_depend_on_the_seed_and_not_on_the_order_of_the_teams():
    teams = random_evaluations(4, 12)
    one = rank_evaluations(teams, by=["centre"], n_resamples=50)
    other = rank_evaluations(dict(reversed(teams.items())), by=["centre"], n_resamples=50)
    key = ["kind", "attribute", "stratum", "scheme", "metric", "label", "team"]
    for name, columns in (
        ("ranks", key),
        ("bootstrap", ["scheme", "team"]),
        ("tests", ["better", "worse"]),
    ):
        tables = [
            getattr(r, name).sort_values(columns).reset_index(drop=True) for r in (one, other)
        ]
        pd.testing.assert_frame_equal(*tables)

    one, same, other = (
        rank_evaluations(teams, n_resamples=50, seed=seed).bootstrap for seed in (1, 1, 2)
    )

    assert one.equals(same)
    assert not one.equals(other)

    teams = random_evaluations(3, 12)
    full = rank_evaluations(teams, by=["centre"], n_resamples=20)
    aggregate = rank_evaluations(teams, by=["centre"], n_resamples=20, aggregate_only=True)

    assert (aggregate.cases, aggregate.values, aggregate.case_names) == (None, None, ())
    assert aggregate.ranks.equals(full.ranks)
    assert full.cases["case"].nunique() == 12


def test_patients_of_the_evaluations_are_drawn_and_tested():
    by_case = rank_evaluations(random_evaluations(3, 24), n_resamples=200)
    by_patient = rank_evaluations(random_evaluations(3, 24, patient="patient"), n_resamples=200)

    assert (by_case.n_units, by_patient.n_units) == (24, 12)
    assert by_patient.tests["n"].max() == 12
    assert any("24 cases are of 12 patients" in note for note in by_patient.notes)
    assert ranks(by_case) == ranks(by_patient)


def test_evaluations_that_cannot_be_ranked_together_are_refused():
    with pytest.raises(ValueError, match="the same cases"):
        rank_evaluations(
            random_evaluations(1, 12, names=["a"]) | random_evaluations(1, 10, names=["b"])
        )
    with pytest.raises(ValueError, match="`scheme` must be one of mean, median"):
        rank_evaluations(random_evaluations(2), scheme="podium")
