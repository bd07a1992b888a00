import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from nnunet_dro.evaluation.report import comparison_table, evaluation_table

from .made import comparison_of, evaluation_of, scores_of


def printed(renderable, *, width=160, **options):
    console = Console(file=io.StringIO(), width=width, **options)
    console.print(renderable)
    return console.file.getvalue()


def test_table_has_the_statistics_in_per_cent():
    evaluation = evaluation_of(*scores_of(60))
    first = evaluation.strata.iloc[0]
    text = printed(evaluation_table(evaluation))

    row = next(line for line in text.splitlines() if line.startswith("white matter") and "control" in line)
    expected = [f"{100 * first[name]:.1f}" for name in ("mean", "median", "iqr", "p25", "p10", "p5")]
    assert row.split()[3:] == ["20", *expected]
    assert "Cerebellum is worst in spina_bifida (pathology): One case in twenty" in text


def test_numbers_of_too_few_cases_are_dim():
    few = printed(evaluation_table(evaluation_of(*scores_of(30))), force_terminal=True, color_system="standard")
    many = printed(evaluation_table(evaluation_of(*scores_of(300))), force_terminal=True, color_system="standard")
    assert "\x1b[2m" in few
    assert "\x1b[2m" not in many


def test_names_are_never_markup_or_control_sequences():
    names = ("[bold red]x[/]", "[/]", "\x1b[31mred", "a\nb")
    attributes = {"[b]": list(names)}
    scores, strata = scores_of(cases=list(names), labels=names[:2], attributes=attributes)
    evaluation = evaluation_of(scores, strata, notes=("[link=x]a note[/link]",))
    text = printed(evaluation_table(evaluation)) + printed(
        comparison_table(comparison_of({"[i]": scores, "b": scores}, strata))
    )
    for name in ("[bold red]x[/]", "�[31mred", "a�b", "[link=x]a note[/link]", "b against [i]"):
        assert name in text
    assert "\x1b" not in text


def test_comparison_shows_before_after_and_the_difference():
    scores, strata = scores_of(60, labels=("one",))
    after = scores.assign(dice=(scores["dice"] - 0.06).clip(0, 1))
    text = printed(comparison_table(comparison_of({"ERM": scores, "DRO": after}, strata)))
    assert "−6.0 [−9.0, −3.0]" in text
    assert "DRO against ERM" in text
    assert "loses most" in text


def test_three_methods_have_a_column_for_their_name():
    scores, strata = scores_of(30, labels=("one",))
    text = printed(comparison_table(comparison_of({"ERM": scores, "DRO": scores, "CVaR": scores}, strata)))
    assert "method" in text
    assert "Nothing changed" in text


def test_of_many_methods_the_differences_are_counted():
    scores, strata = scores_of(60, labels=("one",))
    after = scores.assign(dice=(scores["dice"] - 0.06).clip(0, 1))
    methods = {"base": scores} | {f"method {n:02}": after if n == 7 else scores for n in range(19)}
    lines = printed(comparison_table(comparison_of(methods, strata)), width=80).splitlines()
    assert len(lines) < 30
    assert max(map(len, lines)) <= 80
    assert "19 methods against base" in lines[0]
    rows = {line[:9]: line.split()[2:] for line in lines if line.startswith("method ")}
    n_rows = sum(map(int, rows["method 00"]))
    assert rows["method 00"] == ["0", "0", str(n_rows)]
    assert int(rows["method 07"][1]) > 0
    assert any("nnunet-dro rank" in line for line in lines)


def test_three_methods_fit_a_narrow_terminal():
    scores, strata = scores_of(60, labels=("white matter",))
    after = scores.assign(dice=(scores["dice"] - 0.06).clip(0, 1))
    text = printed(comparison_table(comparison_of({"ERM": scores, "DRO": after, "CVaR": after}, strata)), width=80)
    # Wins, ties and losses are the last column, and nothing of them is cut off.
    assert "20/0/0" in text
    assert "W/T/L" in text


def test_table_fits_a_narrow_terminal():
    text = printed(evaluation_table(evaluation_of(*scores_of(60))), width=80)
    assert max(len(line) for line in text.splitlines()) <= 80


def photographs(*, patients=False):
    """Cameras of names that fit no narrow column, few cases in one, failures and distances."""
    cameras = ("fluorescence", "gray_smear_of_a_long_name", "purple_white")
    of_case = ["gray_smear" if n < 5 else cameras[n % 3] for n in range(244)]
    metrics = ("dice", "hd95")
    scores, strata = scores_of(244, ("nucleus",), metrics=metrics, attributes={"camera": of_case})
    evaluation = evaluation_of(scores, strata, metrics)
    counts = evaluation.strata.assign(n_missed=1, n_invented=0, n_failed=1, failure_high=0.657)
    return replace(evaluation, strata=counts.assign(n_patients=counts["n"]) if patients else counts)


@pytest.mark.parametrize("patients", [False, True])
def test_narrow_terminal_cuts_no_name_and_no_number(patients):
    evaluation = photographs(patients=patients)
    lines = printed(evaluation_table(evaluation), width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "…" in line]
    assert any("fluore" in line for line in lines)
    assert any("65.7 %)" in line for line in lines)


def test_values_of_few_cases_stand_below_the_table():
    text = " ".join(printed(evaluation_table(photographs()), width=80).split())
    assert re.search(r"gray_smear: [\d.]+, [\d.]+, [\d.]+, [\d.]+, [\d.]+", text)


def test_columns_without_a_count_are_left_out():
    text = printed(evaluation_table(photographs()), width=80)
    assert "missed" in text
    assert "inv." not in text
