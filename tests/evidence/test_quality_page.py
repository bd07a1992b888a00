"""The page for quality engineers: its commands run one after the other, as the reader runs them."""

import pytest

from tests.evaluation.made_folders import bars, run, write_cases, write_dataset_json, write_map
from tests.test_docs import ROOT, calls


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for n in range(6):
        write_map(tmp_path / "labelsTs" / f"case_{n:02}.nii.gz", bars(4))
        write_map(tmp_path / "predictions" / "dro" / f"case_{n:02}.nii.gz", bars(4, n % 2))
        write_map(tmp_path / "predictions" / "old" / f"case_{n:02}.nii.gz", bars(4, 1))
    write_dataset_json(tmp_path / "labelsTs")
    write_cases(
        tmp_path, centre=["A", "A", "A", "B", "B", "B"], patient=["1", "1", "2", "3", "3", "4"]
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_of_the_page_run(folder):
    commands = calls((ROOT / "docs" / "quality.md").read_text("utf-8"))
    names = [
        "plan",
        "protocol",
        "selfcheck",
        "evaluate",
        "evaluate",
        "compare",
        "report",
        "report",
    ]

    assert [words[0] for words in commands] == names

    results = [run(*words) for words in commands]
    # Three cases in a centre cannot show what 59 can, nor that none loses a point.
    assert [result.exit_code for result in results] == [0, 0, 0, 4, 4, 3, 0, 0]
    assert [result.stderr for result in results if not result.exit_code] == [""] * 5
    assert "cannot tell if a requirement is met: centre=A label=tumour: p5" in results[3].stderr
    assert results[5].stderr.count("requirement not met: method=new centre=") == 4
    assert "59" in results[0].stdout

    readme = (folder / "evidence" / "README.md").read_text("utf-8")
    assert "6 cases of 4 patients" in readme

    locked = next(line for line in results[1].stdout.splitlines() if line.startswith("SHA-256 "))
    assert locked.removeprefix("SHA-256 ") in readme
