"""The reports of what the evaluation itself makes, not of made frames."""

import io

import pytest
from rich.console import Console

from nnunet_dro.evaluation.comparing.comparison import compare
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.report import (
    comparison_html,
    comparison_latex,
    comparison_markdown,
    comparison_table,
    evaluation_html,
    evaluation_latex,
    evaluation_markdown,
    evaluation_table,
)
from nnunet_dro.evaluation.statistics.stratum_statistics import (
    false_positives,
    percentile_notes,
    summarise,
    worst_strata,
)
from nnunet_dro.evaluation.stratifying.stratify import stratify_all

from .made import scores_of

METRICS = ("dice", "hd95")


def evaluated(method, *, gain=0.0, by=("pathology", "centre,pathology")):
    scores, _ = scores_of(45, metrics=METRICS, gain=gain)
    cases = scores.drop_duplicates("case")[["case", "pathology", "centre"]].reset_index(drop=True)
    stratum_of_case = stratify_all(cases, by, cases["case"].tolist())
    strata = summarise(scores, stratum_of_case, metrics=METRICS, n_resamples=50)
    empty, worst = false_positives(scores), worst_strata(strata)
    notes = tuple(percentile_notes(strata))
    return Evaluation(method, scores, strata, stratum_of_case, worst, empty, notes=notes)


@pytest.mark.parametrize("by", [(), ("pathology",), ("pathology", "centre,pathology")])
def test_evaluation_has_every_report(by):
    evaluation = evaluated("ERM", by=by)
    html = evaluation_html(evaluation)
    mean = f"{100 * evaluation.strata['mean'].iloc[0]:.1f}"
    console = Console(file=io.StringIO(), width=160)
    console.print(evaluation_table(evaluation))

    reports = (html, evaluation_markdown(evaluation), evaluation_latex(evaluation), console.file.getvalue())
    assert [mean in report for report in reports] == [True] * 4
    assert html.count("p5 is uncertain") == sum("p5 is uncertain" in note for note in evaluation.notes)


@pytest.mark.parametrize("by", [(), ("pathology",), ("pathology", "centre,pathology")])
def test_comparison_has_every_report(by):
    methods = {name: evaluated(name, gain=gain, by=by) for name, gain in (("ERM", 0.0), ("DRO", 0.1), ("CVaR", 0.2))}
    comparison = compare(methods, n_resamples=50)
    console = Console(file=io.StringIO(), width=160)
    console.print(comparison_table(comparison))
    mean = f"{100 * comparison.table['mean_method'].iloc[0]:.1f}"

    html = comparison_html(comparison)
    reports = (html, comparison_markdown(comparison), comparison_latex(comparison), console.file.getvalue())
    assert [mean in report for report in reports] == [True] * 4
    assert "Gained most, Dice" in html
    assert "Lost most, Dice" not in html
