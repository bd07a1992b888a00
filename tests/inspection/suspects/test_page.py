import json
import shutil

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.files.case_log import LOSSES, WEIGHTS, EpochLog
from nnunet_dro.inspection.suspects import find_suspects, suspects_files
from nnunet_dro.inspection.suspects.curves import curves_of
from tests.evaluation.report.made import HOSTILE

from .made_folds import LOGS, fold_folder, ranked, write_log


def curve_of(kind, values, times=None):
    """The figure of the first case; the values of a row are those of the cases in an epoch."""
    values = pd.DataFrame(values).rename(columns="c{}".format)
    times = (
        1 + 0 * values.fillna(0)
        if times is None
        else pd.DataFrame(times).rename(columns="c{}".format)
    )
    return curves_of(EpochLog(kind, values, times.astype(int)), ["c0"])["c0"]


def heights(figure, kind):
    """The y coordinates of a curve."""
    points = str(figure).split(f'class="{kind}" points="')[1].split('"')[0]
    return [float(point.split(",")[1]) for point in points.split()]


def test_curve_lies_above_the_median_where_the_loss_does():
    figure = curve_of(LOSSES, [[3, 1, 1.2], [2, 1, 1.5], [0.5, 1, 1.5]])
    case = heights(figure, "curve s1")

    median = heights(figure, "curve s6")

    assert [c < m for c, m in zip(case, median, strict=True)] == [True, True, False]

    values = np.zeros((240, 2))
    times = np.ones((240, 2))
    values[0::2], times[0::2] = 1.0, 3
    figure = curve_of(WEIGHTS, values, times)
    # A point stands for two epochs: 0.75 by visits, and the median of all cases 0.5.
    case, median = (np.array(heights(figure, kind)) for kind in ("curve s1", "curve s6"))

    assert (130 - case) / (130 - median) == pytest.approx(np.full(120, 1.5), rel=0.01)
    # One epoch is drawn, and no value at all.
    for kind in (WEIGHTS, LOSSES):
        assert len(heights(curve_of(kind, [[0.5, 1.0]]), "curve s1")) == 2
        assert 'class="curve s1" points=""' in curve_of(kind, [[np.nan, 1.0]] * 3)


@pytest.mark.parametrize("file", LOGS)
def test_page_works_in_a_browser(project, tmp_path, open_page, file):
    folder = fold_folder(tmp_path, project("labels").dataset)
    order = [f"case_{i:02d}" for i in (7, 2)] + [*HOSTILE, "a" * 90]
    write_log(folder, file, [{**epoch, "never": None} for epoch in ranked(file, order)])

    page = open_page(suspects_files(find_suspects(folder, top=4))["suspects.html"])

    assert page.column(0) == [*order, "never"]
    assert page.column(2) == [*(str(n + 1) for n in range(len(order))), "–"]

    of_losses = ["100.0", f"{100 - 100 / (len(order) - 1):.1f}"]
    assert page.column(3)[:2] == (["0.100", "0.300"] if file == "weights.csv" else of_losses)
    assert (
        page.run("return [...document.querySelectorAll('.picture b')].map(b => b.textContent)")
        == order[:4]
    )

    page.check(width=390)
    page.resize(1200)
    sizes = page.run(
        "return [...document.querySelectorAll('.plane svg')].map(s => s.getBoundingClientRect().width)"
    )

    assert len(sizes) == 4
    assert min(sizes) > 150
    assert page.one(".lines").is_displayed()

    page.one("#contours").click()
    assert (
        page.run("return getComputedStyle(document.querySelector('.lines')).visibility") == "hidden"
    )

    page.one("#casetable td button").click()
    assert page.run("return document.querySelector('.picture.chosen').id") == "picture-0"


def fold_that_validates(project, case):
    """The fold of a project that validates a case; 1 before any training has divided the cases."""
    path = project.preprocessed / "splits_final.json"
    if not path.exists():
        return 1
    splits = json.loads(path.read_text())
    return next(fold for fold, split in enumerate(splits) if case in split["val"])


def test_prediction_and_strata_stand_beside_the_label(project, tmp_path):
    here = project("labels")
    folder = fold_folder(tmp_path, here.dataset)
    write_log(folder, "hardness.csv", ranked("hardness.csv", [f"case_{n:02d}" for n in range(6)]))
    validation = folder.parent / f"fold_{fold_that_validates(here, 'case_01')}" / "validation"
    validation.mkdir(parents=True)
    reference = next((here.raw / "labelsTr").glob("case_01.*"))
    ending = reference.name.removeprefix("case_01")
    shutil.copy(reference, validation / reference.name)
    (validation / f"case_02{ending}").write_bytes(b"damaged")

    found = find_suspects(folder)

    assert found.pictures["case_01"].predicted == found.pictures["case_01"].plane.outlines
    assert found.pictures["case_02"].predicted is None

    page = suspects_files(found)["suspects.html"]
    assert page.count("<span>prediction</span>") == 1
    # The column `number` names every case, and divides none.
    assert {name: of_case["case_01"] for name, of_case in found.strata.items()} == {"site": "b"}
    assert page.count("<small>site: b</small>") == 4
