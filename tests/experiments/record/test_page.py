import re
from dataclasses import dataclass

import pandas as pd
import torch
from matplotlib.figure import Figure

from experiments.record.experiment import Experiment, Page, run
from experiments.record.page import how_it_was_made

TABLE = pd.DataFrame({"method": ["ERM", "beta 10"], "accuracy": [12.345, 98.7654], "n": [3, 4]})


@dataclass(frozen=True)
class Settings:
    seed: int


def made_up(*, name="made-up", title="A title", table=TABLE, pictures=(), **fields):
    """An experiment of two seeds, which take a minute each."""
    fixed = {
        "runs": lambda options: [options.runs_of(lambda _, seed: Settings(seed), ["ERM"])],
        "make": lambda options, name, run: {"seconds": 62.7},
        "minutes": lambda run: 1.0,
        "tables": lambda finished, _: {"-all": pd.DataFrame({"seed": [0, 7]})},
        "page": lambda tables, _: Page(
            "## Asked\n\nAnd answered.",
            table,
            tables["-all"]["seed"].tolist(),
            pictures=dict.fromkeys(pictures, Figure),
        ),
    }
    return Experiment(name=name, title=title, **({"seeds": (0, 7)} | fixed | fields))


def written(folder, experiment, *words):
    words = ["--jobs", "1", "--work", str(folder / "work"), "--out", str(folder), *words]
    assert run(experiment, words) == 0
    (page,) = folder.glob("*.md")
    return page.read_text()


def test_page_has_all_that_makes_the_result_again(tmp_path):
    text = written(tmp_path, made_up(pictures=[""]))
    threads = rf" {torch.get_num_threads()} of \d+ cores\. 20\d\d-\d\d-\d\d, 2 min 5 s\.\n"

    assert text.startswith("# A title\n\n*[How to read this page](reading.md): ")
    assert "\n\n## Asked\n\nAnd answered.\n\n## Numbers\n" in text
    assert "python -m experiments made-up --jobs 1 --work " in text
    assert f"\nSeeds 0, 7. torch {torch.__version__.split('+')[0]}, nnunetv2 " in text
    assert re.search(threads, text)
    assert "![A title](made-up.png)" in text
    assert "Smoke run" in written(tmp_path, made_up(), "--quick").splitlines()[2]


def test_it_is_said_which_seeds_were_added_and_which_runs_failed():
    how = {"seeds": [0, 7], "added": [7], "seconds": 125.4}
    text = how_it_was_made("x", **how, failures={"DRO-seed0": "No such trainer\nand more"})

    assert "Seeds 0, 7 (7 when the results of the others were known). " in text
    assert "2 min 5 s for the seeds that were added." in text
    assert text.endswith("**Failed: DRO-seed0**, No such trainer")
    nothing = {"seeds": [], "added": [], "seconds": 1.0}
    assert "Nothing is random. " in how_it_was_made("x", **nothing, failures={})


def test_a_section_and_its_page_leave_each_other_alone(tmp_path):
    section = made_up(name="slices", title="Slices", section_of="made-up")
    first = written(tmp_path, made_up())

    both = written(tmp_path, section)

    assert both.startswith(first)
    assert "\n## Slices\n\n### Asked\n" in both
    assert written(tmp_path, section) == both
    assert written(tmp_path, section, "--render") == both

    changed = written(tmp_path, made_up(page=lambda *_: Page("New.", TABLE, [0])), "--render")
    page, others = changed.split("<!-- begin slices")
    assert "\n\nNew.\n" in page
    assert "Asked" not in page
    assert others == both.split("<!-- begin slices")[1]


def test_a_page_needs_no_table_or_picture_but_how_it_was_made(tmp_path, capsys):
    text = written(tmp_path, made_up(table=TABLE.iloc[:0]))
    assert "## Numbers" not in text
    assert ".png" not in text

    (tmp_path / "made-up.md").unlink()
    assert run(made_up(), ["--render", "--out", str(tmp_path)]) == 2
    assert "does not say how made-up was made" in capsys.readouterr().err
