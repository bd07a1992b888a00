import re

import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure

from experiments.record.page import PageContent, how_it_was_made, write_page, write_picture

TABLE = pd.DataFrame({"method": ["ERM", "beta 10"], "accuracy": [12.345, 98.7654], "n": [3, 4]})


def how(**changed):
    given = {"seeds": [0, 7], "added": [], "seconds": 125.4, "failures": {}}
    return how_it_was_made("python -m experiments made-up --out x", **{**given, **changed})


def write(path, name="made-up", **changed):
    given = {"title": "A title", "text": "## Asked\n\nAnd answered.", "table": TABLE}
    made_how = changed.pop("how", how())
    content = PageContent(name, **{**given, **changed})
    return write_page(path, content, how=made_how).read_text()


def test_page_has_all_that_makes_the_result_again(tmp_path):
    text = write(tmp_path / "made-up.md")
    assert text.startswith("# A title\n\n*[How to read this page](reading.md): ")
    assert "\n\n## Asked\n\nAnd answered.\n\n## Numbers\n" in text
    assert "python -m experiments made-up --out x" in text
    assert f"\nSeeds 0, 7. torch {torch.__version__.split('+')[0]}, nnunetv2 " in text
    assert re.search(
        rf" {torch.get_num_threads()} of \d+ cores\. 20\d\d-\d\d-\d\d, 2 min 5 s\.\n", text
    )
    assert "![A title](made-up.png)" in text
    assert "Smoke run" not in text
    assert "Smoke run" in write(tmp_path / "made-up.md", quick=True).splitlines()[2]


def test_it_is_said_which_seeds_were_added_and_which_runs_failed():
    text = how(added=[7], failures={"DRO-seed0": "No such trainer\nand more"})
    assert "Seeds 0, 7 (7 when the results of the others were known). " in text
    assert "2 min 5 s for the seeds that were added." in text
    assert text.endswith("**Failed: DRO-seed0**, No such trainer")
    assert "Nothing is random. " in how(seeds=[])


def test_a_section_and_its_page_leave_each_other_alone(tmp_path):
    path = tmp_path / "made-up.md"
    first = write(path)

    both = write(path, "slices", title="Slices", is_section=True)

    assert both.startswith(first)
    assert "\n## Slices\n\n### Asked\n" in both
    assert write(path) == both
    assert write(path, "slices", title="Slices", is_section=True, how=None) == both

    changed = write(path, text="New.", how=None)
    assert "\n\nNew.\n" in changed.split("<!-- begin")[0]
    assert "Asked" not in changed.split("<!-- begin")[0]
    assert changed.split("<!-- begin slices")[1] == both.split("<!-- begin slices")[1]


def test_a_page_needs_no_table_or_picture_but_how_it_was_made(tmp_path):
    with pytest.raises(ValueError, match="does not say how made-up was made"):
        write(tmp_path / "made-up.md", how=None)

    text = write(tmp_path / "made-up.md", table=TABLE.iloc[:0], picture=False)
    assert "## Numbers" not in text
    assert ".png" not in text


def test_interrupted_writing_leaves_the_old_picture(tmp_path, monkeypatch):
    figure = Figure()
    figure.subplots().plot([0, 1])
    write_picture(tmp_path / "made-up.png", figure)

    before = (tmp_path / "made-up.png").read_bytes()

    assert before.startswith(b"\x89PNG")

    def cut_short(self, path, **options):
        path.write_bytes(b"half a picture")
        raise KeyboardInterrupt

    monkeypatch.setattr(Figure, "savefig", cut_short)

    with pytest.raises(KeyboardInterrupt):
        write_picture(tmp_path / "made-up.png", figure)
    assert (tmp_path / "made-up.png").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["made-up.png"]
