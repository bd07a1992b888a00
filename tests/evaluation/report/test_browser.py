import base64
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnunet_dro.evaluation.report import comparison_html, evaluation_html
from nnunet_dro.evaluation.report.gallery import GalleryEntry, _planes
from nnunet_dro.pages import html as html_pages
from nnunet_dro.pages.pictures import Plane
from tests.pages.browser import payload

from .made import HOSTILE, comparison_of, evaluation_of, scores_of

PIXEL = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


def report(n_cases=30, *, failed=False, **options):
    evaluation = evaluation_of(*scores_of(n_cases, **options))
    if failed:
        counts = {"n_missed": 2, "n_invented": 1, "n_patients": 12, "n_undefined": 1}
        evaluation = replace(
            evaluation, strata=evaluation.strata.assign(**counts, p5_low=math.nan, p10_low=math.nan)
        )
    return evaluation_html(evaluation)


def comparison(n_cases=30, *, failed=False, **options):
    before, strata = scores_of(n_cases, **options)
    after, _ = scores_of(n_cases, gain=0.1, **options)
    made = comparison_of({"ERM": before, "nnUNetTrainerDRO_share0.3": after}, strata)
    if failed:
        made.table[["n_undefined", "n_worst_baseline"]] = 1
        made.strata[["n_missed", "n_invented", "n_patients", "n_undefined"]] = 2, 1, 12, 1
    return comparison_html(made)


def script(name):
    """A script of this folder."""
    return (Path(__file__).parent / f"{name}.js").read_text(encoding="utf-8")


def focused_row(page):
    return page.run("return document.activeElement.dataset.row")


def click(page, selector):
    """Click what a mouse may not reach."""
    page.run(
        f"document.querySelector({selector!r}).dispatchEvent(new MouseEvent('click', {{bubbles: true}}))"
    )


def unfold(page):
    page.run("document.querySelectorAll('details').forEach(part => { part.open = true; })")


def test_request_check_sees_a_request(open_page):
    html = report().replace("img-src data:;", "img-src *;")
    page = open_page(html.replace("</main>", '<img src="http://127.0.0.1:9/x"></main>'))

    assert page.requests() == ["http://127.0.0.1:9/x"]


def test_packed_table_is_unpacked_by_the_page(open_page, monkeypatch):
    plain = report(cases=[f"früh_{n}" for n in range(30)])
    monkeypatch.setattr(html_pages, "_LARGEST_PLAIN", 0)
    packed = report(cases=[f"früh_{n}" for n in range(30)])
    assert payload(packed) == payload(plain)

    page = open_page(packed)

    page.driver.execute_async_script(
        "const done = arguments[0];"
        "const look = () => document.querySelector('#casetable td') ? done() : setTimeout(look, 9);"
        "look();"
    )
    assert all(case.startswith("früh_") for case in page.column(0))
    assert page.requests() == []


@pytest.mark.parametrize("make", [report, comparison])
def test_hostile_names_are_text(open_page, make):
    attributes = {"pathology": list(HOSTILE), "</style>": list(HOSTILE[::-1])}
    page = open_page(
        make(cases=list(HOSTILE), labels=(HOSTILE[0], HOSTILE[3]), attributes=attributes)
    )

    unfold(page)

    for dot in page.all(".dot")[:3]:
        page.run(
            "arguments[0].dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))", dot
        )

    assert page.run("return window.hurt === undefined")
    assert page.all("img") == []
    assert set(page.column(0)) == set(HOSTILE)
    assert page.errors() == []

    click(page, ".dot")
    assert set(page.column(0)) <= set(HOSTILE)
    assert page.run("return window.hurt === undefined")
    assert page.requests() == []


def test_clicking_a_heading_sorts_and_says_so(open_page):
    scores, strata = scores_of(30)
    scores.loc[3, "dice"] = math.nan
    page = open_page(evaluation_html(evaluation_of(scores, strata)))

    dice = [heading.text for heading in page.all("#casetable th button")].index("Dice (%)")

    assert page.one("#casetable th[aria-sort]").get_attribute("aria-sort") == "ascending"

    worst_first = [float(text) for text in page.column(dice)]
    assert worst_first == sorted(worst_first)

    page.all("#casetable th button")[dice].click()

    best_first = [float(text) for text in page.column(dice)]

    assert best_first == sorted(best_first, reverse=True)
    assert best_first[0] > worst_first[-1]

    sorted_by = page.all("#casetable th[aria-sort]")
    assert [(th.text.split()[0], th.get_attribute("aria-sort")) for th in sorted_by] == [
        ("Dice", "descending")
    ]

    # Cases without a value come last in both directions.
    for _ in range(2):
        page.all("#casetable th button")[dice].click()
        page.run("document.querySelector('[data-do=next]').click()")
        assert page.column(dice)[-1] == "–"
    by_name = page.all("#casetable th button")[0]
    by_name.send_keys("\ue007")  # Enter

    assert page.column(0)[:3] == ["case_0000"] * 3

    by_name.send_keys(" ")
    assert page.column(0)[:3] == ["case_0029"] * 3


def test_filters_by_text_and_stratum(open_page):
    page = open_page(report())

    page.one("#filters input").send_keys("CASE_0007")

    assert set(page.column(0)) == {"case_0007"}
    assert page.text("#count") == "Rows 1 to 3 of 3"

    page.one("#filters input").send_keys("nowhere")
    assert page.text("#count") == "No row fits the filters."

    page.run(
        "const i = arguments[0]; i.value = ''; i.dispatchEvent(new Event('input'))",
        page.one("#filters input"),
    )
    page.all("#filters select")[1].send_keys("spina_bifida")

    assert set(page.column(2)) == {"spina_bifida"}
    assert page.text("#count") == "Rows 1 to 30 of 30"


def test_pages_of_the_table_hold_every_row_once(open_page):
    page = open_page(report(40))
    seen = list(zip(page.column(0), page.column(1), strict=True))

    for _ in range(2):
        page.one('[data-do="next"]').click()
        seen += zip(page.column(0), page.column(1), strict=True)

    assert len(seen) == len(set(seen)) == 120
    assert not page.one('[data-do="next"]').is_enabled()

    page = open_page(report(5000))
    assert page.text("#count") == "Rows 1 to 50 of 15,000"

    page.run("document.querySelectorAll('#casetable th button')[0].click()")
    page.run(
        "const [i] = arguments; i.value = '0049'; i.dispatchEvent(new Event('input'))",
        page.one("#filters input"),
    )

    assert page.column(0)[:3] == ["case_0049"] * 3


def test_clicking_a_dot_opens_its_case_and_back(open_page):
    page = open_page(report())
    dot = page.all("#by-0 .dot")[0]
    row = dot.get_attribute("data-row")
    page.scroll_to(dot)

    dot.click()

    assert len(set(page.column(0))) == 1
    assert len(page.column(0)) == 3
    assert page.one("tr.chosen").get_attribute("data-row") == row == focused_row(page)
    assert page.text("#selected span") == f"Only case {page.column(0)[0]} is shown."
    assert page.run("return arguments[0].classList.contains('chosen')", dot)
    assert (
        0
        <= page.run("return document.querySelector('tr.chosen').getBoundingClientRect().top")
        <= 900
    )

    page.one('[data-do="back"]').click()
    assert page.run("return document.activeElement === arguments[0]", dot)

    click(page, "[data-do=clear]")
    assert page.text("#count") == "Rows 1 to 50 of 90"
    assert page.all(".dot.chosen") == []


def test_dots_of_several_strata_keep_their_order_where_they_are_parted(open_page):
    page = open_page(report())
    places = page.run(
        """
        const chart = document.querySelector("#volumes svg.chart");
        const n = [...chart.querySelectorAll("polyline")].length;
        chart.dispatchEvent(new PointerEvent("pointerover"));
        const dots = [...chart.querySelectorAll(".dot")];
        return [n, dots.map((dot) => Number(dot.getAttribute("transform").match(/[0-9.]+/)[0]))];
        """
    )
    n_strata, from_left_to_right = places
    assert n_strata > 1
    assert len(from_left_to_right) == 30
    assert from_left_to_right == sorted(from_left_to_right)


def test_dots_are_one_stop_of_the_tab_key_and_say_what_they_are(open_page):
    scores, strata = scores_of(10, labels=("one",))
    page = open_page(evaluation_html(evaluation_of(scores, strata)))

    stops = page.all('.dot[tabindex="0"]')

    assert 0 < len(stops) <= len(page.all("svg.chart")) < len(page.all(".dot"))

    page.run("arguments[0].focus()", stops[0])
    assert page.text("#tooltip b").startswith("case_")

    stops[0].send_keys("\ue014")  # arrow to the right
    second = page.run("return document.activeElement")

    assert second != stops[0]

    label = second.get_attribute("aria-label")
    assert "Dice (%): " in label
    assert ", one · " in label
    assert (
        len(
            page.run(
                "return arguments[0].closest('svg').querySelectorAll('[tabindex=\"0\"]')", second
            )
        )
        == 1
    )

    second.send_keys("\ue007")
    assert focused_row(page) == second.get_attribute("data-row")

    dot = page.one('#by-0 .dot[data-row="4"]')
    page.scroll_to(dot)
    page.run("arguments[0].dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))", dot)
    lines = page.text("#tooltip").splitlines()

    assert lines == [
        "case_0004",
        "one · spina_bifida · A",
        f"Dice (%): {100 * scores.loc[4, 'dice']:.1f}",
    ]


@pytest.mark.parametrize("make", [report, comparison])
def test_nothing_overflows_a_phone(open_page, make):
    long = {"pathology": ["x" * 70, "a name of several words that goes on and on"] * 15}
    page = open_page(make(labels=("w" * 60, "v"), attributes=long), width=390)

    unfold(page)

    assert page.run("return document.documentElement.scrollWidth") == 390

    too_wide = page.run(
        "return [...document.querySelectorAll('main *, header *')].filter(e => !e.closest('.scroll, svg, .unseen') "
        "&& e.getBoundingClientRect().right > 391).map(e => e.outerHTML.slice(0, 80))"
    )
    assert too_wide == []


@pytest.mark.parametrize("make", [report, comparison])
@pytest.mark.parametrize("width", [1100, 1300, 1700])
def test_no_column_of_a_table_is_cut_off_and_no_name_inside_a_word(open_page, make, width):
    names = {"centre_and_camera": ["University_Hospital_of_Southampton", "B", "C-1.5T/rest"] * 30}
    labels = ("grey_matter", "subcortical_nucleus_number_07")
    page = open_page(make(90, labels=labels, attributes=names, failed=True), width=width)
    unfold(page)

    tables = page.all("main section:not(#cases) .scroll")

    cut = page.run("return arguments[0].map(box => box.scrollWidth - box.clientWidth)", tables)

    assert len(cut) >= 2
    assert max(cut) <= 0
    assert page.run(script("broken_words"), "main section:not(#cases) th, h1") == []

    last = "return arguments[0].map(b => b.querySelector('thead tr:last-child th:last-child').innerText)"
    assert "P5" in page.run(last, tables)


@pytest.mark.parametrize("failed", [False, True])
def test_a_phone_shows_the_tail_without_scrolling_and_names_whole(open_page, failed):
    names = {"centre": ["hippocampus_126", "B", "C"] * 10}
    page = open_page(report(labels=("grey_matter",), attributes=names, failed=failed), width=390)
    unfold(page)

    right = page.run(
        "return [...document.querySelectorAll('.strata thead th')].filter(e => e.innerText === 'P5')"
        ".map(e => e.getBoundingClientRect().right - e.closest('.scroll').getBoundingClientRect().right)"
    )
    assert right
    assert max(right) <= 1
    assert page.run(script("broken_words"), ".strata th") == []
    assert page.run(script("broken_words"), "#casetable td:first-child") == []


def test_a_phone_shows_differences_of_mean_and_tail_without_scrolling(open_page):
    page = open_page(comparison(), width=390)

    right = page.run(
        "return [...document.querySelectorAll('#by-0 > .scroll th')].filter(e => e.innerText === 'Difference')"
        ".map(e => e.getBoundingClientRect().right - e.closest('.scroll').getBoundingClientRect().right)"
    )
    assert len(right) == 2
    assert max(right) <= 1


def test_a_table_on_a_phone_says_that_it_goes_on(open_page):
    page = open_page(comparison(), width=390)
    box = page.one("#by-0 .scroll")

    hint = page.one("#by-0 .onwards")

    assert page.run("return arguments[0].scrollWidth > arguments[0].clientWidth", box)
    assert hint.is_displayed()

    page.run("arguments[0].scrollLeft = arguments[0].scrollWidth", box)
    page.scroll_to(box)

    assert not hint.is_displayed()

    # Whose numbers they are stays in view.
    left = (
        "return arguments[0].querySelector('tbody tr:not(.group) th').getBoundingClientRect().left"
    )
    assert page.run(left, box) >= 0

    page.resize(1200)
    page.scroll_to(box)

    assert not hint.is_displayed()


def test_dark_follows_the_system_and_the_button(open_page):
    def background(page):
        return page.run("return getComputedStyle(document.body).backgroundColor")

    html = report()
    light = background(open_page(html))
    page = open_page(html, prefers_color_scheme="dark")

    dark = background(page)

    assert light == "rgb(252, 251, 248)"
    assert dark == "rgb(20, 23, 26)"

    assert page.text("#theme") == "Light theme"

    page.one("#theme").click()
    assert background(page) == light
    assert page.text("#theme") == "Dark theme"

    page.one("#theme").click()
    assert background(page) == dark


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_on_every_shade_can_be_read(open_page, scheme):
    ratios = open_page(report(), prefers_color_scheme=scheme).run(script("contrast"))
    assert len(ratios) == 18
    assert min(ratios) >= 4.5


def test_rows_dots_and_pictures_lead_to_each_other_and_to_the_viewer(open_page):
    evaluation = evaluation_of(*scores_of(6, labels=("one",)))
    outlines = (("reference", "M1 1h2v2h-2z"), ("prediction", "M1 1h1v1h-1z"))
    plane = Plane("", 4, 4, 1.0, 1.8, PIXEL, outlines)
    entry = GalleryEntry("case_0003", "one", "Dice 50.0 %", ("centre: B",), (plane,))
    address = "cases.html#case=case_0003&label=one"
    page = open_page(evaluation_html(evaluation, [entry], {("case_0003", "one"): address}))

    (link,) = page.all("#casetable a.inviewer")

    assert link.get_attribute("href").rpartition("/")[2] == address
    assert link.get_attribute("aria-label") == "case_0003 in the viewer"
    assert page.one("#picture-0 a").get_attribute("href").endswith(address)
    assert not page.one("#inviewer").is_displayed()

    page.one('#casetable tr[data-row="3"] button').click()
    assert page.run("return document.activeElement.id") == "picture-0"
    assert len(page.all("#casetable td button")) == 1

    click(page, '.dot[data-row="3"]')
    assert page.run("return document.querySelector('#picture-0').classList.contains('chosen')")
    assert page.one("#inviewer").get_attribute("href").endswith(address)

    click(page, '.dot[data-row="2"]')
    assert not page.one("#inviewer").is_displayed()

    page.one("#contours").click()
    assert page.one("#contours").get_attribute("aria-pressed") == "false"
    assert (
        page.run("return getComputedStyle(document.querySelector('.lines')).visibility") == "hidden"
    )
    assert page.errors() == []


@pytest.mark.parametrize(("width", "height"), [(600, 400), (60, 60), (300, 900)])
def test_a_picture_in_two_dimensions_fills_its_frame(open_page, width, height):
    grey = np.zeros((height, width))
    mask = np.zeros((height, width), bool)
    mask[4:-4, 5:-5] = True
    (plane,) = _planes(grey[None], mask[None], mask[None], (1, 1, 1))
    evaluation = evaluation_of(*scores_of(6, labels=("one",)))
    page = open_page(
        evaluation_html(evaluation, [GalleryEntry("case_0003", "one", "Dice 50.0 %", (), (plane,))])
    )

    shown, line = page.run(
        "const svg = document.querySelector('.plane svg'), frame = document.querySelector('.planes');"
        "const [a, b] = [svg.getBoundingClientRect(), frame.getBoundingClientRect()];"
        "const stroke = getComputedStyle(svg.querySelector('.reference')).strokeWidth;"
        "return [[a.width, a.height, b.width], parseFloat(stroke)]"
    )

    assert shown[0] / shown[1] == pytest.approx(plane.aspect, rel=0.02)
    assert shown[0] > 0.9 * shown[2] or shown[1] > 600
    assert line < max(0.5 * shown[0] / plane.width, 0.7)


@pytest.mark.parametrize("make", [report, comparison])
def test_page_prints_on_white_paper_with_all_its_tables(open_page, driver, make):
    page = open_page(make(), prefers_color_scheme="dark")
    n_rows = len(page.all("main table tbody tr"))

    page.run("window.dispatchEvent(new Event('beforeprint'))")

    assert page.run("return [...document.querySelectorAll('details')].every(part => part.open)")

    printed = driver.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})

    pdf = base64.b64decode(printed["data"])

    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") >= 2

    # What needs a mouse is not on paper, and nothing is cut off at the right.
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert (
            page.run("return getComputedStyle(document.body).backgroundColor")
            == "rgb(255, 255, 255)"
        )
        assert page.run("return getComputedStyle(document.body).color") == "rgb(29, 33, 38)"
        assert (
            page.run(
                "return getComputedStyle(document.querySelector('#theme, header button')).display"
            )
            == "none"
        )
        assert len(page.all("main table tbody tr")) >= n_rows
        page.resize(690 if make is report else 1200)
        assert page.run("return document.documentElement.scrollWidth <= window.innerWidth")
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})

    assert page.errors() == []
