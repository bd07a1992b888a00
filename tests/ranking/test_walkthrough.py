"""The commands of docs/ranking.md run as they stand there."""

from pathlib import Path

import pytest

from tests.commands import done, run
from tests.evaluation.made_folders import bars, write_cases, write_dataset_json, write_map
from tests.ranking.made import recorded
from tests.test_docs import ROOT, calls

TEXT = (ROOT / "docs" / "ranking.md").read_text(encoding="utf-8")


@pytest.fixture
def here(tmp_path, monkeypatch):
    for number in range(4):
        write_map(tmp_path / "labelsTs" / f"case_{number:02}.nii.gz", bars(4))
        for shift, team in enumerate(("alpha", "beta", "gamma")):
            if (team, number) != ("gamma", 3):
                moved = bars(4, shift + number % 2)
                write_map(tmp_path / "submissions" / team / f"case_{number:02}.nii.gz", moved)
    write_dataset_json(tmp_path / "labelsTs")
    write_cases(tmp_path, centre=["A", "A", "B", "B"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_do_what_the_page_says_and_it_names_files_and_columns(here, monkeypatch):
    scored = recorded(monkeypatch)
    found = calls(TEXT)
    assert [words[0] for words in found] == ["rank", "rank", "rank", "compare"]
    for words in found:
        folders = [word for w in words for word in (sorted(map(str, Path().glob(w))) if "*" in w else [w])]
        done(run(*folders, *(["--bootstrap", "20"])))
    # The second and the third command score nothing again.
    assert scored == ["alpha", "beta", "gamma"]
    assert "case_0" in (here / "ranking" / "report.html").read_text()
    for path in (here / "public").iterdir():
        assert "case_0" not in path.read_text()
    for path in (here / "ranking").iterdir():
        assert f"`{path.name}`" in TEXT
    for name in ("ranks", "kendall_tau", "tests"):
        header = (here / "ranking" / f"{name}.csv").read_text().splitlines()[0].split(",")
        known = ("scheme", "metric", "label", "better", "worse")
        assert [column for column in header if f"`{column}`" not in TEXT and column not in known] == []
