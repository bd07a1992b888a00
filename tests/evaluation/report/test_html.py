import math
import re

import pytest

from nnunet_dro.evaluation.report import comparison_html, evaluation_html
from tests.pages.browser import Parts, payload
from tests.pages.drawn_dots import drawn_dots

from .made import HOSTILE, comparison_of, evaluation_of, scores_of


def reports(n_cases=12, **options):
    before, strata = scores_of(n_cases, **options)
    after, _ = scores_of(n_cases, gain=0.1, **options)
    comparison = comparison_of({"ERM": before, "DRO": after}, strata)
    return [evaluation_html(evaluation_of(before, strata)), comparison_html(comparison)]


def test_an_attribute_may_have_the_name_of_a_column():
    page = reports(cases=["a", "b", "c"], attributes={"metric": ["spina_bifida", "A", "A"]})[
        1
    ].replace("<wbr>", "")
    assert "metric (stratum)" in page


@pytest.mark.parametrize("which", [0, 1])
def test_page_is_well_formed_stands_alone_and_names_add_no_element(which):
    page = reports(6)[which]
    tags = Parts(page).tags

    ids = [given["id"] for _, given in tags if "id" in given]

    assert len(ids) == len(set(ids))
    assert {given["href"].removeprefix("#") for tag, given in tags if tag == "a"} <= set(ids)
    assert re.findall(r"https?://[^\"' ]+|url\((?!#)[^)]*\)|@import", page) == []
    assert (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
        in page
    )

    attributes = {"pathology": list(HOSTILE), "centre": list(HOSTILE[::-1])}
    hostile = reports(cases=list(HOSTILE), labels=HOSTILE[:3], attributes=attributes)[which]

    assert {tag for tag, _ in Parts(hostile).tags} <= {tag for tag, _ in tags}
    assert payload(hostile)["columns"][0]["names"] == list(HOSTILE)


def test_page_shows_every_number_of_the_strata_table():
    evaluation = evaluation_of(*scores_of(30))
    html = evaluation_html(evaluation)

    for record in evaluation.strata.to_dict("records"):
        for statistic in ("mean", "median", "iqr", "p25", "p10", "p5"):
            assert f"<b>{100 * record[statistic]:.1f}" in html

    scores, strata = scores_of(30)
    html = evaluation_html(
        evaluation_of(scores, strata, notes=("Two <b>predictions</b> were left out.",))
    )

    assert "Two &lt;b&gt;predictions&lt;/b&gt; were left out." in html
    assert "2 TP / (2 TP + FP + FN), over voxels" in html
    assert "95 % percentile bootstrap, cases resampled within their stratum" in html
    assert "p5 is uncertain in" in html


def test_page_of_5000_cases_draws_every_case_and_stays_small():
    html = evaluation_html(evaluation_of(*scores_of(5000)))
    assert len(drawn_dots(html)) == 5000 * 3 * 3
    assert len(html.encode()) < 6_000_000

    html = evaluation_html(
        evaluation_of(*scores_of(5000, labels=tuple(f"label {n}" for n in range(14))))
    )
    assert len(drawn_dots(html)) <= 90_000
    assert "Of each row only the worst 357 are drawn; band and lines are of all." in html
    assert "Only the worst 714 cases of each label are drawn." in html


@pytest.mark.parametrize("values", [[math.nan], [1.0], [0.0]])
def test_page_of_one_case(values):
    scores, strata = scores_of(1, labels=("one",))
    scores["dice"] = values
    html = evaluation_html(evaluation_of(scores, strata))

    other = comparison_html(comparison_of({"ERM": scores, "DRO": scores}, strata))

    assert payload(html)["columns"][4]["values"] == [
        None if math.isnan(values[0]) else 100 * values[0]
    ]
    assert len(payload(other)["columns"][0]["codes"]) == 1
    assert "nan" not in re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)


def test_page_has_what_there_is_of_strata_volumes_and_values():
    scores, _ = scores_of(6)
    html = evaluation_html(evaluation_of(scores, {}))

    assert "All cases" in html
    assert ">Stratum<" not in html
    assert [column["title"] for column in payload(html)["columns"]][:3] == [
        "Case",
        "Label",
        "Dice (%)",
    ]

    scores, strata = scores_of(6)
    assert 'id="volumes"' in evaluation_html(evaluation_of(scores, strata))

    scores[["reference_ml", "prediction_ml"]] = math.nan
    assert 'id="volumes"' not in evaluation_html(evaluation_of(scores, strata))

    scores, strata = scores_of(12)
    pairs = strata["centre"].astype(object) + "," + strata["pathology"].astype(object)
    strata["centre,pathology"] = pairs.astype("category").cat.as_ordered()
    html = evaluation_html(evaluation_of(scores, strata))

    assert "By centre × pathology" in html
    assert "A × control" in html
    assert "centre,pathology" not in [column["title"] for column in payload(html)["columns"]]

    scores, strata = scores_of(6, labels=("one",), metrics=("dice", "hd95"))
    evaluation = evaluation_of(scores, strata, ("hd95",))
    scores.loc[0, "hd95"] = math.inf
    html = evaluation_html(evaluation)

    assert payload(html)["columns"][4]["values"][0] is None
    assert len(drawn_dots(html)) == 5 * 2 + 5


def test_comparison_marks_gains_of_five_points():
    scores, strata = scores_of(30)
    after = scores.assign(dice=(scores["dice"] - 0.06).clip(0, 1))
    lost = comparison_html(comparison_of({"ERM": scores, "DRO": after}, strata))

    gained = comparison_html(comparison_of({"DRO": after, "ERM": scores}, strata))

    assert "<b>▼ −6.0" in lost
    assert "<b>▲ +6.0" in gained
    assert "<b>▲" not in lost

    html = comparison_html(comparison_of({"ERM": scores, "DRO": scores}, strata))
    # Both ends of a difference need all four bounds: it has two or none.
    assert "one bound" not in html
    assert "▲, ▼" not in html
