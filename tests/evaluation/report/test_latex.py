import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation.report import comparison_latex, evaluation_latex
from nnunet_dro.evaluation.report.latex import escape

from .made import HOSTILE, comparison_of, evaluation_of, ordered, scores_of

GOLDEN = Path(__file__).parent / "golden"


def evenly(low, high, n=40):
    """Values whose percentiles are read off: p% of the way from low to high."""
    return np.linspace(low, high, n + 1)


def scores_from(ranges, stratum_of_label=("all",)):
    """Scores with evenly spread values: (stratum, label) to the lowest and highest."""
    rows = []
    for (stratum, label), (low, high) in ranges.items():
        for n, dice in enumerate(evenly(low, high)):
            rows.append({"case": f"{stratum} {n:02d}", "label": label, "dice": dice, "pathology": stratum})
    return pd.DataFrame(rows)


def pathology_of(scores, order):
    of_case = scores.drop_duplicates("case").set_index("case")["pathology"]
    return {"pathology": pd.Series(pd.Categorical(of_case, categories=order, ordered=True), index=of_case.index)}


def table_2():
    """Strata of a column, two methods, three labels."""
    labels, strata = ("white matter", "ventricles", "cerebellum"), ("Controls", "Spina bifida", "Other pathologies")
    erm, dro = {}, {}
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
        ranges = {("all", label): (0.7 - 0.2 * n + 0.02 * place, 0.96) for n, label in enumerate(labels)}
        scores[method] = scores_from(ranges).drop(columns="pathology")
    cases = scores["ERM, SGD"]["case"].unique()
    return comparison_of(scores, {"all": ordered(["all"] * len(cases), cases)})


@pytest.mark.parametrize("make", [table_2, table_3])
def test_tables_in_the_form_of_the_paper(make):
    assert comparison_latex(make()) == (GOLDEN / f"{make.__name__}.tex").read_text(encoding="utf-8")


def test_numbers_are_the_percentiles_in_per_cent():
    # Spina bifida, white matter, ERM: evenly from 60 to 98 %: P25 is 60 + 0.25 * 38.
    row = next(line for line in comparison_latex(table_2()).splitlines() if "Spina bifida" in line and "&" in line)
    assert row.strip().endswith(r"white matter & 79.0 & 79.0 & 19.0 & 69.5 & 63.8 & 61.9 \\")


def test_bold_is_better_than_every_other_method_by_five_points():
    bold = [line for line in comparison_latex(table_2()).splitlines() if "textbf" in line and "Mean" not in line]
    # From 40 to 60 %: every statistic but the upper end moves by at least five points.
    assert [line.split("&")[2].strip() for line in bold] == ["cerebellum"]
    assert bold[0].count("textbf") == 6


def test_method_that_beats_only_some_is_not_bold():
    scores = scores_from({("all", "one"): (0.2, 0.9)})
    better = scores.assign(dice=scores["dice"] + 0.06)
    nearly = scores.assign(dice=scores["dice"] + 0.03)
    strata = pathology_of(scores, ["all"])
    assert r"\textbf{61.0}" in comparison_latex(comparison_of({"a": scores, "b": better}, strata))
    three = comparison_latex(comparison_of({"a": scores, "b": better, "c": nearly}, strata))
    assert r"\textbf{61.0}" not in three


def test_smaller_interquartile_range_is_better():
    wide, narrow = scores_from({("all", "one"): (0.0, 1.0)}), scores_from({("all", "one"): (0.2, 0.8)})
    text = comparison_latex(comparison_of({"wide": wide, "narrow": narrow}, pathology_of(wide, ["all"])))
    assert r"& 50.0 & 50.0 & \textbf{30.0} &" in text
    assert r"& 50.0 & 50.0 & 50.0 & 25.0 &" in text


def test_distances_are_in_mm_and_never_bold():
    scores, strata = scores_of(60, labels=("one",), metrics=("dice", "hd95"))
    far = scores.assign(hd95=scores["hd95"] + 30)
    text = comparison_latex(comparison_of({"far": far, "near": scores}, strata, ("hd95",)))
    assert "HD95 (mm), by pathology" in text
    assert r"\textbf{P75} & \textbf{Max} \\" in text
    assert not [line for line in text.splitlines() if "textbf" in line and "Mean" not in line]


def test_caption_says_cases_and_definitions():
    text = evaluation_latex(evaluation_of(*scores_of(30)))
    assert r"\caption{Dice (per cent), by pathology. Cases: control (10), other (10), spina\_bifida (10)." in text
    assert "2 TP / (2 TP + FP + FN), over voxels" in text
    assert r"\textsuperscript{\textdagger} Too few cases" in text


def test_undefined_statistics_are_dashes():
    scores, strata = scores_of(3, labels=("one",))
    scores["dice"] = math.nan
    text = evaluation_latex(evaluation_of(scores, strata))
    assert "one & -- & -- & -- & -- & -- & --" in text
    assert "left out: 3 pairs" in text


def test_special_characters_are_escaped():
    assert escape(r"a_b & 50% {x} \y #1 $ ~^") == (
        r"a\_b \& 50\% \{x\} \textbackslash{}y \#1 \$ \textasciitilde{}\textasciicircum{}"
    )
    assert escape("two\nlines") == "two lines"


def test_hostile_names_leave_the_table_whole():
    attributes = {"path_ology%": list(HOSTILE)}
    text = evaluation_latex(evaluation_of(*scores_of(cases=list(HOSTILE), labels=HOSTILE, attributes=attributes)))
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(body) == 1 + len(HOSTILE) ** 2
    for line in body:
        assert len(re.findall(r"(?<!\\)&", line)) == 5
        assert line.count("{") - line.count(r"\{") == line.count("}") - line.count(r"\}")
        assert not re.search(r"(?<!\\)[%#]", line)
