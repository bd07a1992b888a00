"""What the report files and the terminal say of evaluations and comparisons."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation.report import comparison_latex, comparison_markdown, comparison_table
from nnunet_dro.evaluation.report.documents import (
    evaluation_latex,
    evaluation_markdown,
    evaluation_table,
)
from nnunet_dro.evaluation.report.further_tables import difference_table
from nnunet_dro.evaluation.report.strata_tables import strata_tables
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.pages.terminal import printed
from tests.pages.screen import screen

from .made import HOSTILE, comparison_of, evaluation_of, ordered, scores_of


def rows(text):
    return [line for line in text.splitlines() if line.startswith("|")]


def scores_from(ranges):
    """Scores with evenly spread values, whose percentiles are read off: (stratum, label) to the
    lowest and highest."""
    rows = []
    for (stratum, label), (low, high) in ranges.items():
        for n, dice in enumerate(np.linspace(low, high, 41)):
            rows.append(
                {"case": f"{stratum} {n:02d}", "label": label, "dice": dice, "pathology": stratum}
            )
    return pd.DataFrame(rows)


def pathology_of(scores, order):
    of_case = scores.drop_duplicates("case").set_index("case")["pathology"]
    return {
        "pathology": pd.Series(
            pd.Categorical(of_case, categories=order, ordered=True), index=of_case.index
        )
    }


def table_2():
    """Strata of a column, two methods, three labels."""
    labels = ("white matter", "ventricles", "cerebellum")
    strata = ("Controls", "Spina bifida", "Other pathologies")
    erm = {}
    dro = {}
    for place, stratum in enumerate(strata):
        for n, label in enumerate(labels):
            low = 0.9 - 0.1 * n - (0.3 if place == 1 else 0.05 * place)
            erm[stratum, label] = (low, 0.98)
            dro[stratum, label] = (low + (0.2 if (place, n) == (1, 2) else 0.02), 0.98)
    scores = {"ERM": scores_from(erm), "DRO": scores_from(dro)}
    return comparison_of(scores, pathology_of(scores["ERM"], strata))


def table_3():
    """One stratum of all cases, six methods, three regions."""
    labels = ("whole tumour", "tumour core", "enhancing tumour")
    methods = ("ERM, SGD", "ERM, Adam", "DRO, SGD", "DRO, Adam", "DRO, SGD, IW", "DRO, Adam, IW")
    scores = {}
    for place, method in enumerate(methods):
        ranges = {
            ("all", label): (0.7 - 0.2 * n + 0.02 * place, 0.96) for n, label in enumerate(labels)
        }
        scores[method] = scores_from(ranges).drop(columns="pathology")
    cases = scores["ERM, SGD"]["case"].unique()
    return comparison_of(scores, {"all": ordered(["all"] * len(cases), cases)})


@pytest.mark.parametrize("make", [table_2, table_3])
def test_tables_in_the_form_of_the_paper(make):
    golden = Path(__file__).parent / "golden" / f"{make.__name__}.tex"
    assert comparison_latex(make()) == golden.read_text(encoding="utf-8")


def test_tables_have_percentiles_in_per_cent_and_better_ones_bold():
    # Spina bifida, white matter, ERM: evenly from 60 to 98 %: P25 is 60 + 0.25 * 38.
    row = next(
        line
        for line in comparison_latex(table_2()).splitlines()
        if "Spina bifida" in line and "&" in line
    )
    shown = re.findall(r"withbelow{([\d.]+)}{(\S+), ", row)

    assert [value for value, _ in shown] == ["79.0", "79.0", "19.0", "69.5", "63.8", "61.9"]
    assert shown[0][1] == "[76.0"

    bold = [
        line
        for line in comparison_latex(table_2()).splitlines()
        if "textbf" in line and "Mean" not in line
    ]
    # From 40 to 60 %: every statistic but the upper end moves by at least five points.
    assert [line.split("&")[2].strip() for line in bold] == ["cerebellum"]
    assert bold[0].count("textbf") == 6

    # Who beats only some is not bold.
    scores = scores_from({("all", "one"): (0.2, 0.9)})
    better, nearly = (scores.assign(dice=scores["dice"] + gain) for gain in (0.06, 0.03))
    strata = pathology_of(scores, ["all"])

    assert r"\textbf{61.0}" in comparison_latex(comparison_of({"a": scores, "b": better}, strata))
    assert r"\textbf{61.0}" not in comparison_latex(
        comparison_of({"a": scores, "b": better, "c": nearly}, strata)
    )

    wide = scores_from({("all", "one"): (0.0, 1.0)})
    narrow = scores_from({("all", "one"): (0.2, 0.8)})
    text = comparison_latex(
        comparison_of({"wide": wide, "narrow": narrow}, pathology_of(wide, ["all"]))
    )

    assert r"\withbelow{50.0}{[47.0, 53.0]} & \withbelow{\textbf{30.0}}{" in text
    assert r"\withbelow{50.0}{[47.0, 53.0]} & \withbelow{25.0}{" in text

    scores, strata = scores_of(60, labels=("one",), metrics=("dice", "hd95"))
    far = scores.assign(hd95=scores["hd95"] + 30)
    text = comparison_latex(comparison_of({"far": far, "near": scores}, strata, ("hd95",)))

    assert "{pathology: HD95 (mm). HD95: " in text
    assert r"\textbf{P75} & \textbf{Max} \\" in text
    assert not [line for line in text.splitlines() if "textbf" in line and "Mean" not in line]


@pytest.mark.parametrize(
    ("report", "row"),
    [
        (evaluation_latex, "& one & \\withbelow{1}{1 undef.} & -- & -- & -- & -- & -- & --"),
        (evaluation_markdown, "| one | control | 1 (1 undef.) | – | – | – | – | – | – |"),
    ],
)
def test_undefined_statistics_are_dashes(report, row):
    scores, strata = scores_of(3, labels=("one",))
    scores["dice"] = math.nan

    assert row in report(evaluation_of(scores, strata))


def test_hostile_names_leave_latex_tables_whole():
    attributes = {"path_ology%": list(HOSTILE)}
    text = evaluation_latex(
        evaluation_of(*scores_of(cases=list(HOSTILE), labels=HOSTILE, attributes=attributes))
    )

    body = [line for line in text.splitlines() if line.endswith(r"\\")]

    assert len(body) == 1 + len(HOSTILE) ** 2
    assert "than every other method" not in text, "there is no other"
    for line in body:
        assert len(re.findall(r"(?<!\\)&", line)) == 6
        assert line.count("{") - line.count(r"\{") == line.count("}") - line.count(r"\}")
        assert not re.search(r"(?<!\\)[%#]", line)


def test_markdown_has_the_numbers_and_their_intervals():
    evaluation = evaluation_of(*scores_of(60))
    record = evaluation.strata.iloc[0]
    text = evaluation_markdown(evaluation)

    row = next(line for line in rows(text) if line.startswith("| white matter | control |"))

    mean = f"{100 * record['mean']:.1f} \\[{100 * record['mean_low']:.1f}, {100 * record['mean_high']:.1f}\\]"

    assert row.startswith(f"| white matter | control | 20 | {mean} |")
    assert "## pathology: Dice (%)" in text
    assert text.endswith("\n")
    assert "\n\n\n" not in text


def test_every_row_has_as_many_cells_as_its_head():
    scores, strata = scores_of(
        cases=list(HOSTILE), labels=HOSTILE, attributes={"a|b": list(HOSTILE)}
    )
    for text in (
        evaluation_markdown(evaluation_of(scores, strata)),
        comparison_markdown(comparison_of({"a|b": scores, "<i>": scores}, strata)),
    ):
        for table in text.split("\n## ")[1:]:
            assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows(table)}) == 1
        assert "<script" not in text


def test_comparison_names_both_values_and_the_difference():
    scores, strata = scores_of(60)
    after = scores.assign(dice=(scores["dice"] - 0.06).clip(0, 1))

    text = comparison_markdown(comparison_of({"ERM": scores, "DRO": after}, strata))

    assert text.startswith("# DRO against ERM\n")
    assert "| Label | Stratum | n | Mean (%): ERM | Mean (%): DRO | Mean (%): Difference |" in text
    assert re.search(
        r"\| white matter \| control \| 20 \| \d+\.\d \| \d+\.\d \| ▼ −6\.0 \\\[−9\.0, −3\.0\\\] \|",
        text,
    )
    assert "W / T / L: cases better, equal, worse." in text


def test_terminal_has_the_statistics_in_per_cent():
    evaluation = evaluation_of(*scores_of(60))
    first = evaluation.strata.iloc[0]
    text = screen(evaluation_table(evaluation), width=160)

    row = next(
        line for line in text.splitlines() if line.startswith("white matter") and "control" in line
    )
    names = ("mean", "median", "iqr", "p25", "p10", "p5")

    expected = [f"{100 * first[name]:.1f} [{100 * first[f'{name}_low']:.1f}," for name in names]

    assert [" ".join(words) for words in re.findall(r"([\d.]+) (\[\S+)", row)] == expected
    assert "Cerebellum is worst in spina_bifida (pathology): One case in twenty" in text


def test_of_many_methods_the_differences_are_counted():
    scores, strata = scores_of(60, labels=("one",))
    after = scores.assign(dice=(scores["dice"] - 0.06).clip(0, 1))
    methods = {"base": scores} | {f"method {n:02}": after if n == 7 else scores for n in range(19)}

    lines = screen(comparison_table(comparison_of(methods, strata))).splitlines()

    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    assert lines[0] == "Failures (Dice < 50 %): none with any of 20 methods."
    assert "19 methods against base" in lines[1]

    rows = {line[:9]: line.split()[2:] for line in lines if line.startswith("method ")}
    assert rows["method 00"] == ["0", "0", "6"]
    assert int(rows["method 07"][1]) > 0
    assert any("nnunet-dro rank" in line for line in lines)


def test_three_methods_fit_a_narrow_terminal():
    scores, strata = scores_of(60, labels=("white matter",))
    after = scores.assign(dice=(scores["dice"] - 0.06).clip(0, 1))

    text = screen(
        comparison_table(comparison_of({"ERM": scores, "DRO": after, "CVaR": after}, strata))
    )

    assert "loses most" in text
    assert "DRO against ERM" in text
    # Wins, ties and losses are the last column, and nothing of them is cut off.
    assert "20 / 0 / 0" in text
    assert "W / T / L" in text

    wide = screen(comparison_table(comparison_of({"ERM": scores, "DRO": after}, strata)), width=160)
    assert "−6.0 [−9.0, −3.0]" in wide


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
    lines = screen(evaluation_table(photographs(patients=patients))).splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "…" in line]
    assert any("fluore" in line for line in lines)
    assert any("65.7" in line for line in lines)


@pytest.mark.parametrize("width", [80, 130])
@pytest.mark.parametrize("failed", [False, True])
def test_what_numbers_mean_takes_at_most_three_lines_below_a_table(width, failed):
    before, strata = scores_of(60, metrics=("dice", "hd95"))
    after = before.assign(dice=(before["dice"] - 0.06).clip(0, 1))
    comparison = comparison_of({"ERM": before, "DRO": after}, strata, ("dice", "hd95"))
    evaluation = evaluation_of(before, strata, ("dice", "hd95"))
    differences = comparison.table[comparison.table["metric"] == "dice"]
    if failed:
        counts = {"n_missed": 2, "n_invented": 1, "n_left_out": 1, "n_failed": 3}
        counts |= {"n_patients": 12, "failure_high": 0.2}
        evaluation = replace(evaluation, strata=evaluation.strata.assign(**counts))
        differences = differences.assign(n_worst_method=1, n_patients=12)

    made = [table for _, table in strata_tables(evaluation.strata, evaluation.scores)]
    for attribute in differences["attribute"].unique():
        inside = differences[differences["attribute"] == attribute]
        made += [difference_table(inside, METRICS["dice"], [name]) for name in ("mean", "p5")]

    for table in made:
        columns = tuple(replace(column, hint="") for column in table.columns)
        bare = replace(table, notes=(), notes_below=(), columns=columns)
        n_lines = [len(screen(printed([one]), width=width).splitlines()) for one in (table, bare)]
        assert n_lines[0] - n_lines[1] <= 3, table.key
