"""Rankings of evaluations: what is aligned, ranked per stratum and left out, and what the tables
say."""

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.evaluating.other_tables import read_scores
from nnunet_dro.ranking.frames import RANK_COLUMNS
from nnunet_dro.ranking.ranking import rank_evaluations
from nnunet_dro.ranking.ranks import OVERALL
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
    assert (
        ranks(ranking, kind="stratum", stratum="A")
        == ranks(ranking, kind="without", stratum="B")
        == {"specialist": 1, "even": 2, "other": 3}
    )
    assert (
        ranks(ranking, kind="stratum", stratum="B")
        == ranks(ranking, kind="without", stratum="A")
        == {"other": 1, "even": 2, "specialist": 3}
    )
    # 0.5, 0.8 and 0.5 in their worst centres.
    assert ranks(ranking, kind="worst") == {"even": 1, "specialist": 2, "other": 2}
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


def teams_of(metric, missed=(), absent=(), **values):
    """Evaluations of teams by their values; in these cases the first misses the label."""
    return {
        team: evaluation_of(
            team, {metric: {"liver": of_team}}, missed=() if n else missed, absent=absent
        )
        for n, (team, of_team) in enumerate(values.items())
    }


@pytest.mark.parametrize(
    ("teams", "expected"),
    [
        # Smaller distances are better.
        (teams_of("hd95", near=[1.0, 2.0], far=[3.0, 4.0]), {"near": [1.5, 1], "far": [3.5, 2]}),
        # A fraction that lacks counts as 0, whatever others have.
        (
            teams_of("precision", misses=[np.nan, 0.9], finds=[0.1, 0.8], missed=[0]),
            {"misses": [0.45, 1.5], "finds": [0.45, 1.5]},
        ),
        (
            teams_of("dice", unknown=[np.nan, 0.9], other=[np.nan, 0.8]),
            {"unknown": [0.45, 1.0], "other": [0.4, 1.5]},
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
        assert any("misses: 1 value of Precision" in note for note in ranking.notes)


def test_a_distance_that_a_missed_label_lacks_is_refused():
    teams = teams_of("hd95", misses=[np.nan, 1.0], far=[9.0, 3.0], missed=[0])
    with pytest.raises(ValueError, match=r"'liver' in 'case_000' by 'misses'.*--empty diagonal"):
        rank_evaluations(teams, n_resamples=0)

    # Not ranked, it does no harm.
    teams = {
        name: evaluation_of(
            name,
            {"dice": {"liver": [0.5, dice]}, "hd95": {"liver": [np.nan, 1.0]}},
            missed=[0],
        )
        for name, dice in (("a", 0.9), ("b", 0.8))
    }
    ranking = rank_evaluations(teams, n_resamples=0, metric_weights=["hd95=0"])
    assert [task.metric for task in ranking.tasks] == ["dice"]


def test_a_case_in_which_all_are_right_counts_as_it_does_for_each():
    teams = teams_of("dice", a=[np.nan, 0.9], b=[np.nan, 0.8], missed=[0], absent=[0])
    teams["b"] = evaluation_of("b", {"dice": {"liver": [np.nan, 0.8]}}, missed=[0], absent=[0])
    ranking = rank_evaluations(teams, n_resamples=20)
    assert ranks(ranking) == {"a": 1, "b": 2}
    assert any(
        note.startswith("2 times in a metric, label and case, a team rightly")
        for note in ranking.notes
    )
    assert ranking.tests["n"].tolist() == [2, 2]

    for name in teams:
        teams[name] = evaluation_of(name, {"dice": {"liver": [np.nan]}}, missed=[0], absent=[0])
    with pytest.raises(ValueError, match="some team has a value"):
        rank_evaluations(teams)


@pytest.mark.parametrize("patient", [None, "patient"])
def test_the_score_of_a_team_is_that_of_its_evaluation_whoever_takes_part(patient):
    # The reference lacks the label in half of the cases; only the last team invents it there.
    columns = {"patient": ["p", "p", "p", "q", "q", "r"], "centre": list("AABBBB")}
    right = {"dice": {"liver": [0.9, np.nan, 0.7, np.nan, 0.6, np.nan]}}
    also = {"dice": {"liver": [0.8, np.nan, 0.7, np.nan, 0.5, np.nan]}}
    invents = {"dice": {"liver": [0.95, 0.0, 0.9, 0.0, 0.9, np.nan]}}
    about = {"columns": columns, "patient": patient, "absent": [1, 3, 5]}
    teams = {
        "right": evaluation_of("right", right, missed=[1, 3, 5], **about),
        "also": evaluation_of("also", also, missed=[1, 3, 5], **about),
        "invents": evaluation_of("invents", invents, missed=[5], **about),
    }
    every = rank_evaluations(teams, by=["centre"], n_resamples=20)
    some = rank_evaluations({n: teams[n] for n in ("right", "also")}, by=["centre"], n_resamples=20)

    def scores(ranking, **columns):
        rows = ranking.selected(metric="dice", label="liver", **columns)
        return rows.set_index("team")["score"].to_dict()

    own = {name: team.strata["mean"].iloc[0] for name, team in teams.items()}
    assert scores(every, kind="all") == pytest.approx(own)
    assert scores(some, kind="all") == pytest.approx({n: own[n] for n in ("right", "also")})
    for stratum in "AB":
        columns = {"kind": "stratum", "stratum": stratum}
        of_every = scores(every, **columns)
        assert scores(some, **columns) == {n: of_every[n] for n in ("right", "also")}

    # In ranks of cases, who invents is behind who is right.
    assert ranks(every, "rank-mean")["invents"] == (3 if patient else 2)


def test_patients_have_the_worst_of_their_cases_if_their_evaluations_do():
    # Means of the worst cases: (0.2 + 0.6) / 2 and (0.5 + 0.5) / 2.
    teams = {
        name: evaluation_of(
            name,
            {"dice": {"liver": values}},
            columns={"patient": ["p", "p", "q"]},
            patient="patient",
            options={"patient_score": "worst"},
        )
        for name, values in {"a": [0.9, 0.2, 0.6], "b": [0.5, 0.5, 0.5]}.items()
    }
    ranking = rank_evaluations(teams, n_resamples=0)
    scores = ranking.selected(kind="all", metric="dice").set_index("team")["score"]
    assert scores.to_dict() == pytest.approx({"a": 0.4, "b": 0.5})
    assert any("with the worst of its cases" in note for note in ranking.notes)


def test_tables_without_any_value_are_refused_in_words(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,tumour_dice\ncase_0,nan\ncase_1,nan\n")

    with pytest.raises(ValueError, match="must have a case in which some team has a value"):
        rank_evaluations({"a": read_scores(path), "b": read_scores(path)})


def test_teams_with_the_same_scores_are_named():
    teams = random_evaluations(3, 12)
    teams["copy"] = teams["team 02"]
    (note,) = [n for n in rank_evaluations(teams, n_resamples=0).notes if "submitted twice" in n]
    assert note.startswith("team 02, copy have the same scores")


def test_metrics_and_labels_have_weights():
    # By Dice a is first, by IoU b is; in the liver and in the tumour.
    values = {"a": (0.9, 0.1), "b": (0.8, 0.2), "c": (0.1, 0.05)}
    teams = {
        team: evaluation_of(
            team,
            {
                metric: {label: [value, value] for label in ("liver", "tumour")}
                for metric, value in zip(("dice", "iou"), pair, strict=True)
            },
        )
        for team, pair in values.items()
    }

    def first(**options):
        ranking = rank_evaluations(teams, n_resamples=0, **options)
        return [team for team, rank in ranks(ranking).items() if rank == 1], ranking

    assert first()[0] == ["a", "b"]
    assert first(metric_weights=["dice=2"])[0] == ["a"]
    names, ranking = first(metric_weights=["iou=2", "dice=0.5"], label_weights=["tumour=3"])
    assert names == ["b"]
    assert ranking.weights == (0.5, 1.5, 2, 6)
    assert len(first(label_weights=["liver=0"])[1].tasks) == 2
    for options, words in (
        ({"metric_weights": ["nsd=2"]}, "`metric_weight` must name"),
        ({"metric_weights": ["dice"]}, "`metric_weight` must be NAME=NUMBER"),
        ({"metric_weights": ["dice=-1"]}, "0 or more, got 'dice=-1'"),
        ({"label_weights": ["liver=inf"]}, "`label_weight` must be NAME=NUMBER"),
        ({"label_weights": ["liver=1", "liver=2"]}, "'liver' twice"),
        ({"label_weights": ["liver=0", "tumour=0"]}, "only zeros"),
    ):
        with pytest.raises(ValueError, match=words):
            first(**options)


def test_stability_is_that_of_each_metric_label_and_stratum():
    teams = random_evaluations(4, 24, metrics=("dice", "iou"), labels=("liver", "tumour"))
    ranking = rank_evaluations(teams, by=["centre"], n_resamples=200)
    kinds = ranking.parts.groupby("kind", sort=False).size().to_dict()
    assert kinds == {"metric": 2 * 4, "label": 2 * 4, "task": 4 * 4, "stratum": 3 * 4}
    of_task = ranking.parts[ranking.parts["kind"] == "task"]
    expected = ranking.selected(kind="all")
    expected = expected[expected["metric"] != OVERALL]
    assert of_task["rank"].tolist() == expected["rank"].tolist()

    # That of a metric is that of a ranking by it alone, from the same samples.
    alone = rank_evaluations(teams, n_resamples=200, metric_weights=["iou=0"])
    rows = ranking.parts[(ranking.parts["kind"] == "metric") & (ranking.parts["metric"] == "dice")]
    rows = rows.set_index("team").loc[list(alone.teams)]
    for column in ("rank", "rank_low", "rank_high", "share_1"):
        assert rows[column].tolist() == alone.samples[column].tolist()
    assert rows["kendall_tau"].iloc[0] == pytest.approx(alone.taus["mean"].iloc[0])
    assert rank_evaluations(teams, n_resamples=0).parts.empty


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
