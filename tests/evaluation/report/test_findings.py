import math

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.report.findings import all_notes, findings
from nnunet_dro.evaluation.report.gains import verdicts

from .made import comparison_of, evaluation_of, ordered, scores_of


def two_strata(n_worse=21, n_better=21, metric="dice"):
    """Stratum A scores 0.00, 0.01, ..., stratum B 0.5 everywhere: percentiles are read off by hand."""
    cases = [f"c{n:03d}" for n in range(n_worse + n_better)]
    values = [*(np.arange(n_worse) / 100), *([0.5] * n_better)]
    scores = pd.DataFrame({"case": cases, "label": "cerebellum", metric: values})
    return scores, {"centre": ordered(["A"] * n_worse + ["B"] * n_better, cases)}


def test_finding_says_what_one_case_in_twenty_scores():
    found = findings(evaluation_of(*two_strata()))

    assert len(found) == 1
    assert (found[0].title, found[0].value) == ("Cerebellum is worst in A", "1.0 %")
    assert found[0].detail == (
        "One case in twenty scores below 1.0 % Dice (95 % interval [−2.0, 4.0]), among 21 cases with a value. "
        "The best stratum is B with 50.0 %: a gap of 49.0 points."
    )
    assert (found[0].attribute, found[0].caption, found[0].tone) == ("centre", "Dice, 5th percentile", "worse")


def test_finding_of_few_cases_is_their_mean_and_says_so():
    found = findings(evaluation_of(*two_strata(n_worse=5)))[0]

    assert found.value == "2.0 %"
    assert "The mean Dice is 2.0 %" in found.detail
    assert "among 5 cases with a value. The mean is given because so few cases" in found.detail
    assert found.caption == "Dice, mean"


def test_finding_of_distances_looks_at_the_far_quarter():
    scores, strata = two_strata(metric="hd95")
    found = findings(evaluation_of(scores, strata, ("hd95",)))[0]

    assert found.title == "Cerebellum is worst in B"
    assert found.detail.startswith("One case in four has HD95 above 0.5 mm")
    assert "a gap of 0.3 mm" in found.detail


def test_findings_are_worst_first():
    values = [float(found.value.split()[0]) for found in findings(evaluation_of(*scores_of(120)))]
    assert len(values) == 6
    assert values == sorted(values)


def test_one_stratum_has_nothing_to_be_worse_than():
    scores, _ = two_strata()
    found = findings(evaluation_of(scores, {}))[0]
    assert found.title == "Cerebellum, all cases"
    assert "gap" not in found.detail


def test_lowest_value_is_not_called_below_itself():
    scores, strata = two_strata()
    scores["dice"] = 0.0
    assert findings(evaluation_of(scores, strata))[0].detail.startswith(
        "One case in twenty scores 0.0 % Dice, the lowest possible value"
    )


def test_nothing_defined_is_nothing_found():
    scores, strata = two_strata()
    scores["dice"] = math.nan
    assert findings(evaluation_of(scores, strata)) == []


def test_notes_on_few_cases_are_added_once():
    strata = evaluation_of(*two_strata(n_worse=5)).strata
    added = all_notes(["a note"], strata)
    assert added[0] == "a note"
    assert "p5 is uncertain in A (5) of centre" in added[2]
    assert all_notes(added, strata) == added
    prefixed = [f"DRO: {note}" for note in added]
    assert all_notes(prefixed, strata) == prefixed


def changed_by(amount, **options):
    before, strata = two_strata(**options)
    after = before.assign(dice=before["dice"] + amount * (before["case"] < "c021"))
    return verdicts(comparison_of({"ERM": before, "DRO": after}, strata))


def test_verdict_names_the_largest_gain():
    verdict = changed_by(0.1)[0]

    assert verdict.method == "DRO"
    assert "Of 4 differences of mean and P5 Dice (strata × labels), 2 are improvements and 0 losses" in verdict.summary
    assert "0 may be chance and 2 are 0." in verdict.summary
    assert "After Holm's correction 1 of 2 paired tests have p < 0.05." in verdict.summary
    gain = verdict.findings[0]
    assert (gain.title, gain.value, gain.tone) == ("Cerebellum in A gains most", "+10.0 points", "better")


def test_verdict_names_a_loss():
    lost = changed_by(-0.1)[0].findings
    assert (lost[0].title, lost[0].value, lost[0].tone) == ("Cerebellum in A loses most", "−10.0 points", "worse")


def test_verdict_says_what_may_be_chance():
    gain = changed_by(0.02)[0].findings[0]
    assert gain.detail.endswith("The interval includes 0, so this may be chance.")
    assert gain.tone == ""


def test_verdict_says_that_nothing_changed():
    verdict = changed_by(0.0)[0]
    assert verdict.summary == "Nothing changed: all 4 differences of mean and P5 Dice are 0."
    assert verdict.findings == ()


def test_verdict_follows_the_worst_stratum_of_the_baseline():
    before, strata = two_strata()
    after = before.assign(dice=before["dice"] + np.where(before["case"] < "c021", 0.04, 0.2))
    found = verdicts(comparison_of({"ERM": before, "DRO": after}, strata))[0].findings
    titles = ["Cerebellum in B gains most", "Cerebellum in A was the worst with ERM"]
    assert [(f.title, f.value) for f in found] == list(zip(titles, ["+20.0 points", "+4.0 points"], strict=True))


def test_verdict_leaves_tails_of_few_cases_out():
    verdict = changed_by(0.1, n_worse=5, n_better=5)[0]
    assert "Of 2 differences" in verdict.summary


def test_gain_without_an_interval_is_not_said_to_have_one():
    before, strata = two_strata()
    comparison = comparison_of({"ERM": before, "DRO": before.assign(dice=before["dice"] + 0.02)}, strata)
    bounds = [column for column in comparison.table.columns if column.endswith(("_low", "_high"))]
    comparison.table[bounds] = float("nan")

    gain = verdicts(comparison)[0].findings[0]

    assert "interval includes 0" not in gain.detail
    assert gain.detail.endswith("Without an interval, this may be chance.")
