import math
import re

from nnunet_dro.evaluation.report import comparison_markdown, evaluation_markdown
from nnunet_dro.evaluation.report.markdown import escape

from .made import HOSTILE, comparison_of, evaluation_of, scores_of


def rows(text):
    return [line for line in text.splitlines() if line.startswith("|")]


def test_table_has_the_numbers_and_their_intervals():
    evaluation = evaluation_of(*scores_of(60))
    record = evaluation.strata.iloc[0]
    text = evaluation_markdown(evaluation)

    row = next(line for line in rows(text) if line.startswith("| control | white matter |"))
    mean = f"{100 * record['mean']:.1f} \\[{100 * record['mean_low']:.1f}, {100 * record['mean_high']:.1f}\\]"
    assert row.startswith(f"| control | white matter | 20 | 0 | {mean} |")
    assert "## pathology: Dice (%)" in text
    assert text.endswith("\n")
    assert "\n\n\n" not in text


def test_every_row_has_as_many_cells_as_its_head():
    attributes = {"a|b": list(HOSTILE)}
    scores, strata = scores_of(cases=list(HOSTILE), labels=HOSTILE, attributes=attributes)
    for text in (
        evaluation_markdown(evaluation_of(scores, strata)),
        comparison_markdown(comparison_of({"a|b": scores, "<i>": scores}, strata)),
    ):
        for table in text.split("\n## ")[1:]:
            assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows(table)}) == 1
        assert "<script" not in text


def test_special_characters_are_escaped():
    assert escape("a|b_c*d <e> `f` [g](h)\n#") == r"a\|b\_c\*d &lt;e&gt; \`f\` \[g\](h) \#"


def test_few_cases_have_a_footnote():
    text = evaluation_markdown(evaluation_of(*scores_of(30)))
    assert "† Too few cases for this statistic: " in text
    assert "†" not in evaluation_markdown(evaluation_of(*scores_of(300)))


def test_undefined_statistics_are_dashes():
    scores, strata = scores_of(3, labels=("one",))
    scores["dice"] = math.nan
    assert "| control | one | 1 | 1 | – | – | – | – | – | – |" in evaluation_markdown(evaluation_of(scores, strata))


def test_comparison_names_both_values_and_the_difference():
    scores, strata = scores_of(60)
    after = scores.assign(dice=(scores["dice"] - 0.06).clip(0, 1))
    text = comparison_markdown(comparison_of({"ERM": scores, "DRO": after}, strata))
    assert text.startswith("# DRO against ERM\n")
    assert re.search(
        r"\| control \| white matter \| DRO \| 20 \| \d+\.\d → \d+\.\d: −6\.0 \\\[−9\.0, −3\.0\\\] \|", text
    )
    assert "losses" in text
