import math
from dataclasses import replace

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.report.documents import comparison_markdown
from nnunet_dro.evaluation.report.findings import (
    WorstStratum,
    all_notes,
    comparison_notes,
    findings,
)
from nnunet_dro.evaluation.report.gains import method_verdicts
from nnunet_dro.evaluation.scoring.metrics import METRICS

from .made import comparison_of, evaluation_of, ordered, scores_of


def two_strata(n_worse=21, n_better=21, metric="dice"):
    """Stratum A scores 0.00, 0.01, ..., stratum B 0.5 everywhere: percentiles are read off by hand."""
    cases = [f"c{n:03d}" for n in range(n_worse + n_better)]
    values = [*(np.arange(n_worse) / 100), *([0.5] * n_better)]
    scores = pd.DataFrame({"case": cases, "label": "cerebellum", metric: values})
    return scores, {"centre": ordered(["A"] * n_worse + ["B"] * n_better, cases)}


def test_findings_say_what_the_worst_cases_score():
    found = findings(evaluation_of(*two_strata()))

    assert len(found) == 1
    assert (found[0].title, found[0].value) == ("Cerebellum is worst in A", "1.0 %")
    assert found[0].text == (
        "One case in twenty scores below 1.0 % Dice (95 % interval [−2.0, 4.0]), among 21 cases with a value. "
        "The best stratum is B with 50.0 %: a gap of 49.0 points (without an interval). "
        "Where the cases are divided at random into strata of these sizes, the median gap is 2.0 points, and none of "
        "1,999 such divisions has one as large."
    )
    assert (found[0].where, found[0].caption, found[0].tone) == (
        "centre",
        "Dice, 5th percentile",
        "worse",
    )

    found = findings(evaluation_of(*two_strata(n_worse=5)))[0]

    assert found.value == "2.0 %"
    assert "The mean Dice is 2.0 %" in found.text
    assert (
        "(0.0, 1.0, 2.0, 3.0, 4.0), among only 5 cases with a value. The mean is compared because some "
        "strata have too few cases to show their worst case in twenty: A." in found.text
    )
    assert found.caption == "Dice, mean"

    scores, strata = two_strata(metric="hd95")
    found = findings(evaluation_of(scores, strata, ("hd95",)))[0]

    assert found.title == "Cerebellum is worst in B"
    assert found.text.startswith("One case in four has HD95 above 0.5 mm")
    assert "a gap of 0.3 mm" in found.text

    (found,) = findings(evaluation_of(two_strata()[0], {}))

    assert found.title == "Cerebellum, all cases"
    assert "gap" not in found.text

    found = findings(evaluation_of(*scores_of(120)))
    keys = [(note.tone != "worse", float(note.value.split()[0])) for note in found]
    assert len(keys) == 6
    assert keys == sorted(keys)


def test_random_strata_are_no_finding_though_one_is_the_lowest():
    scores, _ = two_strata()
    rng = np.random.default_rng(0)
    scores["dice"] = rng.normal(0.85, 0.05, len(scores))
    cases = scores["case"].unique()
    letters = {"letter": ordered(rng.choice(list("abc"), len(cases)), cases)}

    (found,) = findings(evaluation_of(scores, letters))

    assert found.title == "Cerebellum differs no more than by chance"
    assert found.tone == ""
    assert "of such divisions have one as large" in found.text
    assert "The mean is compared because some strata have too few cases" in found.text


def test_strata_whose_means_differ_by_rounding_are_the_same():
    scores, _ = two_strata()
    scores["dice"] = 0.8
    cases = scores["case"].unique()
    letters = ordered(["a", *"bbb", *"c" * (len(cases) - 4)], cases)

    evaluation = evaluation_of(scores, {"letter": letters})

    # The mean of 0.8 three times is a little more than 0.8.
    assert evaluation.strata["mean"].nunique() > 1
    assert findings(evaluation)[0].title == "Cerebellum is the same in every stratum"
    assert evaluation.worst["gap"].eq(0).all()


def test_perfect_predictions_score_below_nothing_and_no_stratum_is_worst():
    scores, strata = two_strata()
    scores["dice"] = 1.0

    (found,) = findings(evaluation_of(scores, strata))

    assert found.title == "Cerebellum is the same in every stratum"
    assert found.tone == ""
    assert found.text == (
        "Nineteen cases in twenty score 100.0 % Dice (the best possible value) in all 2 of them."
    )

    scores, strata = two_strata(metric="hd95")
    scores["hd95"] = 0.0
    (found,) = findings(evaluation_of(scores, strata, ("hd95",)))
    assert found.text.startswith(
        "Three cases in four have HD95 of 0.0 mm (the best possible value)"
    )


def test_stratum_of_four_cases_says_so():
    (found,) = findings(evaluation_of(*two_strata(n_worse=4)))
    assert "among only 4 cases with a value" in found.text


def test_a_reference_like_the_worst_does_not_make_all_the_same():
    rows = {name: {"mean": mean} for name, mean in (("A", 0.8), ("B", 0.8), ("C", 0.9))}
    worst = {"statistic": "mean", "gap": 0.0}
    assert not WorstStratum(worst, rows, METRICS["dice"], "A", None, 1).is_level


def test_lowest_value_is_not_called_below_itself_and_no_value_is_nothing():
    scores, strata = two_strata()
    scores["dice"] = 0.0

    (found,) = findings(evaluation_of(scores, strata))

    assert found.text.startswith("One case in twenty scores 0.0 % Dice, the lowest possible value")

    scores["dice"] = math.nan
    assert findings(evaluation_of(scores, strata)) == []


def test_notes_on_few_cases_are_added_where_their_values_are_not_listed():
    added = all_notes(["a note"], evaluation_of(*two_strata(n_worse=6)).strata)

    assert added[0] == "a note"
    assert "p5 is uncertain in A (6) of centre" in added[2]
    # Of five cases the page lists the values.
    assert all_notes([], evaluation_of(*two_strata(n_worse=5)).strata) == []


def changed_by(amount, **options):
    lower, strata = two_strata(**options)
    higher = lower.assign(dice=lower["dice"] + abs(amount) * (lower["case"] < "c021"))
    before, after = (lower, higher) if amount > 0 else (higher, lower)
    return method_verdicts(comparison_of({"ERM": before, "DRO": after}, strata))


def test_verdict_names_gains_losses_and_the_worst_stratum():
    verdict = changed_by(0.1)[0]

    assert verdict.method == "DRO"
    assert verdict.summary == (
        "By Dice, cases gain in 1 of 2 strata × labels and lose in 0 (Wilcoxon's paired test, "
        "p < 0.05 after Holm's correction). By their 95 % intervals the mean Dice improves in 1 and "
        "worsens in 0 of 2, the 5th percentile of Dice in 1 and in 0 of 2."
    )

    gain = verdict.findings[0]
    assert (gain.title, gain.value, gain.tone) == (
        "Cerebellum in A gains most",
        "+10.0 points",
        "better",
    )
    assert "+10.0 points (95 %" in gain.text

    lost = changed_by(-0.1)[0].findings
    assert (lost[0].title, lost[0].value, lost[0].tone) == (
        "Cerebellum in A loses most",
        "−10.0 points",
        "worse",
    )

    (nothing,) = changed_by(0.0)
    assert nothing.summary == "Nothing changed: all 4 differences of mean and P5 Dice are 0."
    assert nothing.findings == ()
    # Tails of few cases are left out.
    assert "5th percentile" not in changed_by(0.1, n_worse=5, n_better=5)[0].summary

    before, strata = two_strata()
    after = before.assign(dice=before["dice"] + np.where(before["case"] < "c021", 0.04, 0.2))
    found = method_verdicts(comparison_of({"ERM": before, "DRO": after}, strata))[0].findings
    titles = ["Cerebellum in B gains most", "Cerebellum in A was the worst with ERM"]

    assert [(f.title, f.value) for f in found] == list(
        zip(titles, ["+20.0 points", "+4.0 points"], strict=True)
    )


def small_gain(**columns):
    """The finding on a gain of two points whose interval includes 0, with other columns of its row."""
    before, strata = two_strata()
    comparison = comparison_of(
        {"ERM": before, "DRO": before.assign(dice=before["dice"] + 0.02)}, strata
    )
    return method_verdicts(replace(comparison, table=comparison.table.assign(**columns)))[
        0
    ].findings[0]


def test_verdict_says_what_may_be_chance_and_who_gained():
    gain = small_gain(holm_p=0.3, wins=13, losses=8)
    assert gain.text.endswith(
        "Of 21 cases 13 gain, 0 stay equal and 8 lose (p = 0.300). This may be chance."
    )
    assert gain.tone == ""

    assert "1 gains, 1 stays equal and 1 loses" in small_gain(wins=1, ties=1, losses=1).text

    sure = small_gain(holm_p=0.0001)
    assert (
        "21 gain, 0 stay equal and 0 lose (p < 0.001). The interval of the mean includes 0."
        in sure.text
    )
    assert "of the typical case +2.0 [0.0, +4.0]" in sure.text
    assert "chance" not in sure.text

    nothing = {
        f"{s}_difference_{end}": math.nan
        for s in ("mean", "p5", "typical")
        for end in ("low", "high")
    }
    gain = small_gain(**nothing)

    assert "includes 0" not in gain.text
    assert gain.text.endswith("So few cases give no interval of the mean.")
    assert small_gain(**nothing, holm_p=0.3).text.endswith("(p = 0.300). This may be chance.")


def test_a_mean_that_moves_against_the_cases_is_said_so():
    after, strata = two_strata()
    comparison = comparison_of(
        {"ERM": after.assign(dice=after["dice"] + 0.02), "DRO": after}, strata
    )
    comparison.table[["typical_difference", "wins", "losses"]] = 0.01, 20, 1

    summary = method_verdicts(comparison)[0].summary

    assert summary.startswith("By Dice, cases gain in 2 of 2 strata × labels")
    assert "In 2 of them the mean moves the other way: few cases change much." in summary


def test_where_few_cases_change_they_gain_and_patients_are_counted_as_such():
    before, strata = two_strata()
    comparison = comparison_of(
        {"ERM": before, "DRO": before.assign(dice=before["dice"] + 0.02)}, strata
    )

    few = comparison.table.assign(typical_difference=0.0, wins=8, ties=13, losses=0)

    assert method_verdicts(replace(comparison, table=few))[0].summary.startswith(
        "By Dice, cases gain in 2 of 2 strata × labels and lose in 0"
    )

    of_patients = replace(comparison, table=comparison.table.assign(n_patients=7))
    (verdict,) = method_verdicts(of_patients)
    assert verdict.summary.startswith("By Dice, patients gain in 2 of 2")
    patients = verdict.findings[0]
    assert "Of 7 patients 21 gain" in patients.text
    assert patients.caption == "Dice, mean, 7 patients"
    report = comparison_markdown(of_patients)
    assert "| A | 21 (7 patients) |" in report
    assert "| Typical patient |" in report

    evaluation = evaluation_of(before, strata)
    evaluation.strata.insert(5, "n_patients", 20)
    (found,) = findings(evaluation)

    assert found.text.startswith("One patient in twenty scores below 1.0 % Dice")
    assert "among 20 patients with a value" in found.text
    assert "Where the patients are divided at random" in found.text


def test_the_worst_of_the_others_is_not_called_the_worst():
    evaluation = evaluation_of(*two_strata())
    swapped = dict(zip(("worst", "best"), ("best", "worst"), strict=True))
    worst = evaluation.worst.rename(
        columns=swapped | {f"{a}_stratum": f"{b}_stratum" for a, b in swapped.items()}
    )

    (found,) = findings(replace(evaluation, worst=worst.assign(gap=-worst["gap"])))

    assert found.title == "Cerebellum is worst of the others in B"


def test_one_training_of_each_method_is_said_once():
    before, strata = two_strata()
    comparison = comparison_of({"ERM": before, "DRO": before}, strata)

    assert (
        sum(
            "cannot tell the method from its random seed" in note
            for note in comparison_notes(comparison)
        )
        == 1
    )

    comparison = replace(comparison, trainings=comparison.table)
    assert not any("random seed" in note for note in comparison_notes(comparison))
