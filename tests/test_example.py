"""The pages to browse: they are there, small enough, load nothing, and the script that makes them
does what it says."""

import re
from pathlib import Path

import numpy as np
import pytest
import SimpleITK

from docs.make_example import MOST_MB, OUT, largest_parts, main, smoothed

PAGES = sorted(OUT.rglob("*.html"))


def test_all_pages_are_there_and_small_enough_to_be_kept():
    names = {path.relative_to(OUT).as_posix() for path in PAGES}
    assert names == set(
        re.findall(
            r"\(example/(\S+\.html)\)", (OUT.parent / "example.md").read_text(encoding="utf-8")
        )
    )
    assert {"comparison/report.html", "evaluation/cases.html", "rank/report.html"} < names
    assert sum(path.stat().st_size for path in PAGES) < MOST_MB * 1e6


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.parent.name + "-" + path.stem)
def test_pages_load_nothing_and_name_no_path_of_the_machine_that_made_them(page):
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=.https?:", text)
    assert not re.search(r"/(tmp|home|root|work)/", text)


def test_processing_of_label_maps():
    values = np.zeros((12, 12), np.uint8)
    values[1:5, 1:5], values[8:10, 8:10], values[6, 6] = 1, 1, 2
    image = SimpleITK.GetImageFromArray(values)

    largest, smooth = (
        SimpleITK.GetArrayFromImage(change(image)) for change in (largest_parts, smoothed)
    )

    assert largest[1:5, 1:5].all()
    assert not largest[8:10, 8:10].any()
    assert largest[6, 6] == 2
    assert smooth[6, 6] == 0


def test_an_unfinished_demo_is_refused_in_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--demo", str(tmp_path), "--out", str(tmp_path / "out")])
    assert stopped.value.code == 2
    assert "`demo` must be a finished demo" in capsys.readouterr().err
    assert not Path(tmp_path / "out").exists()
