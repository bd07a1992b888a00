"""Non-inferiority: from the interval of the mean difference, per stratum."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation.comparing.comparison import compare
from nnunet_dro.evaluation.comparing.options import CompareOptions
from nnunet_dro.evaluation.judging.verdicts import margin_verdicts
from nnunet_dro.evaluation.report import comparison_markdown
from nnunet_dro.evaluation.statistics.columns import GUARANTEED_DIFFERENCE
from nnunet_dro.evaluation.statistics.intervals import guaranteed_means
from tests.commands import done, refused, run
from tests.evaluation.comparing.test_comparison import evaluation
from tests.evaluation.made_folders import evaluate_both, read_csv, write_study


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.03, 0.13, "better"),
        (0.0, 0.13, "not worse"),
        (-0.01, 0.02, "not worse"),
        (-0.011, 0.02, "cannot tell"),
        # Equal but for rounding.
        (0.75 - 0.76, 0.02, "not worse"),
        (0.1 + 0.2 - 0.3, 0.02, "not worse"),
        (-0.05, -0.02, "worse"),
        (-0.008, -0.001, "not worse"),
        (np.nan, 0.2, "cannot tell"),
        (np.nan, np.nan, "cannot tell"),
    ],
)
def test_verdicts_follow_from_the_interval(low, high, verdict):
    columns = ["metric", *GUARANTEED_DIFFERENCE, "n_left_out"]
    table = pd.DataFrame([["dice", low, high, 0]], columns=columns)
    # The same of a distance, where less is better.
    distances = pd.DataFrame([["hd95", -high, -low, 0]], columns=columns)

    assert margin_verdicts(table, 1) == [verdict]
    assert margin_verdicts(distances, 0.01) == [verdict]


@pytest.mark.parametrize("n", [20, 49, 50, 60, 100, 400])
def test_a_method_that_fails_in_3_percent_is_falsely_not_worse_in_2_5(n):
    # A point more in the others, so that it is 1.77 points worse: more than the margin of 1.
    rng = np.random.default_rng(n)
    before = rng.beta(30, 5, (1000, n)) * 0.99
    changes = np.where(rng.random((1000, n)) < 0.03, -before, 0.01)
    bounds = guaranteed_means(list(changes), bounded=[True] * 1000, low=-1)

    table = pd.DataFrame(bounds, columns=GUARANTEED_DIFFERENCE).assign(metric="dice", n_left_out=0)

    assert changes.mean() < -0.014
    assert np.isin(margin_verdicts(table, 1), ["better", "not worse"]).mean() <= 0.025


def test_findings_and_table_tell_the_margin(tmp_path):
    # Rare cases gain a lot, common ones stay as they are.
    write_study(tmp_path, shifts=[4] * 12 + [0] * 50)
    both = evaluate_both(
        tmp_path, [0] * 12, "--by", "pathology", pathology=["rare"] * 12 + ["common"] * 50
    )

    done(run("compare", *both, "-o", tmp_path / "both", "--margin", 9))

    table = read_csv(tmp_path / "both" / "comparison.csv").set_index(["stratum", "label"])["margin"]

    assert table[("rare", "tumour")] == "better"
    assert table[("common", "tumour")] == "not worse"

    text = (tmp_path / "both" / "report.md").read_text(encoding="utf-8").replace("\\", "")
    assert "not worse by more than 9 points: " in text
    # Not one of 50 changed: Student's t has no width, and one in 14 may be lost.
    assert "tumour in common 0.0 (surely from −8." in text
    assert (
        "better: tumour in rare +100.0 (surely from +41.3 to +100.0), tumour in all cases +19.4"
        in text
    )


def gaining(n, *, gain=0.016, spread=0.003):
    """Two methods, of which the second one is a little better in every one of n cases."""
    rng = np.random.default_rng(0)
    before = rng.beta(30, 5, n) * 0.95
    distances = rng.lognormal(1, 0.5, n)
    changes = rng.normal(gain, spread, n)
    return {
        "old": evaluation(before, hd95=distances),
        "new": evaluation(before + changes, hd95=distances - 10 * changes),
    }


@pytest.mark.parametrize(
    ("bound", "verdicts", "words"),
    [
        (None, ["cannot tell", "cannot tell"], "(surely from −7."),
        ("guaranteed", ["cannot tell", "cannot tell"], "(surely from −7."),
        (
            "typical",
            ["better", "better"],
            "Typical difference of Dice, better: one in all cases +1.",
        ),
        ("t", ["better", "better"], "By Student's t, mean Dice, better: one in all cases +1."),
    ],
)
def test_the_margin_is_judged_by_the_bound_that_is_named(bound, verdicts, words):
    comparison = compare(gaining(44), margin=1, margin_bound=bound)

    assert comparison.table["margin"].tolist() == verdicts
    text = comparison_markdown(comparison).replace("\\", "")
    assert words in text
    # What can be had where the guaranteed bound cannot tell.
    is_said = "of Dice excludes no loss below 9.1 points with 44 cases." in text
    assert text.count("--margin-bound typical or t assumes more") == is_said, "once, of all metrics"
    assert is_said is (verdicts[0] == "cannot tell")
    assert ("HD95 has no limit, and so its mean no guaranteed bound" in text) is is_said


@pytest.mark.parametrize("loss", [False, True])
def test_no_margin_is_kept_where_cases_are_left_out(loss):
    methods = gaining(44, gain=-0.02) if loss else gaining(44)
    baseline = methods["old"]
    absent = baseline.scores["case"].iloc[-3:]
    methods["new"] = replace(
        methods["new"], scores=methods["new"].scores[~baseline.scores["case"].isin(absent)]
    )

    comparison = compare(methods, intersect=True, margin=1, margin_bound="t")

    # As a requirement, whose verdict is the same.
    verdict = "worse" if loss else "cannot tell"
    assert comparison.table["margin"].tolist() == [verdict, verdict]
    text = comparison_markdown(comparison).replace("\\", "")
    assert "because 3 more cases are not in every evaluation." in text
    assert "What can be had" not in text


def test_no_margin_of_distances_is_kept_where_labels_were_missed_by_both():
    methods = gaining(44)
    for name, made in methods.items():
        distances = made.scores["hd95"].where(made.scores["case"] != made.scores["case"].iloc[0])
        missed = made.scores["n_prediction"].where(distances.notna(), 0)
        scores = made.scores.assign(hd95=distances, n_prediction=missed)
        methods[name] = replace(made, scores=scores)

    comparison = compare(methods, margin=1, margin_bound="t")

    assert comparison.table["n_left_out"].tolist() == [0, 1]
    assert comparison.table["margin"].tolist() == ["better", "cannot tell"]
    text = comparison_markdown(comparison)
    assert text.count("where cases are left out in which the label was missed or invented") == 1


def test_a_margin_bound_is_one_of_three_and_comes_with_a_margin():
    with pytest.raises(ValueError, match="must be one of guaranteed, typical, t, got 'sure'"):
        CompareOptions(margin=1, margin_bound="sure")
    with pytest.raises(ValueError, match=r"must come with a margin, .* Add --margin 1\."):
        CompareOptions(margin_bound="t")


def test_a_protocol_locks_the_bounds_by_their_names(tmp_path):
    path = tmp_path / "protocol.toml"
    texts = ("typical_difference_low>=-1pt", "new_failures_high<=5%", "mean_difference_low_t>=0")
    requirements = [word for text in texts for word in ("--require", text)]
    options = ("--margin", 1, "--margin-bound", "typical", *requirements)

    done(run("protocol", "write", path, *options))

    shown = done(run("protocol", "show", path)).stdout
    for words in ("margin-bound          typical", *texts):
        assert words in shown
    # A name that was another number in strata.csv is not locked.
    refused(
        run("protocol", "write", path, "--force", "--require", "mean_difference_low>=-1pt"),
        "must say what the bound of the mean assumes",
        "Write mean_difference_low_guaranteed",
    )
