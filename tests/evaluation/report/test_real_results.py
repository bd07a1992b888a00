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


def reports(table, *written):
    console = Console(file=io.StringIO(), width=160)
    console.print(table)
    return (*written, console.file.getvalue())


@pytest.mark.parametrize("by", [(), ("pathology",), ("pathology", "centre,pathology")])
def test_evaluation_and_comparison_have_every_report(by):
    evaluation = evaluated("ERM", by=by)
    html = evaluation_html(evaluation)
    mean = f"{100 * evaluation.strata['mean'].iloc[0]:.1f}"
    markdown, latex = evaluation_markdown(evaluation), evaluation_latex(evaluation)
    assert all(mean in report for report in reports(evaluation_table(evaluation), html, markdown, latex))
    assert html.count("p5 is uncertain") == sum("p5 is uncertain" in note for note in evaluation.notes)

    others = {name: evaluated(name, gain=gain, by=by) for name, gain in (("DRO", 0.1), ("CVaR", 0.2))}
    comparison = compare({"ERM": evaluation, **others}, n_resamples=50)
    mean = f"{100 * comparison.table['mean_method'].iloc[0]:.1f}"
    html, markdown, latex = comparison_html(comparison), comparison_markdown(comparison), comparison_latex(comparison)
    assert all(mean in report for report in reports(comparison_table(comparison), html, markdown, latex))
    assert "Gained most, Dice" in html
    assert "Lost most, Dice" not in html
