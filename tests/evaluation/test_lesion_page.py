"""The page on lesions: its commands run one after the other, as the reader runs them."""

import pytest

from tests.commands import run
from tests.evaluation.made_folders import names_in, read_csv, write_cases, write_dataset_json, write_map
from tests.evaluation.test_lesion_commands import LESION_FILES, spots
from tests.test_docs import ROOT, calls


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for n in range(4):
        for name, values in {
            "labelsTs": spots(12, 4),
            "predictions/dro": spots(12, 3 * (n != 2)),
            "predictions/erm": spots(11),
        }.items():
            write_map(tmp_path / name / f"case_{n:02}.nii.gz", values)
    write_dataset_json(tmp_path / "labelsTs", {"background": 0, "lesion": 1, "organ": 2})
    write_cases(tmp_path, centre=["A", "A", "B", "B"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_of_the_page_run(folder):
    commands = calls((ROOT / "docs" / "lesions.md").read_text("utf-8"))
    assert len(commands) == 5

    results = [run(*words) for words in commands]

    assert [(result.exit_code, result.stderr) for result in results] == [(0, "")] * 5
    assert names_in(folder / "lesions" / "dro") == LESION_FILES
    sizes = read_csv(folder / "lesions" / "dro" / "lesion_sizes.csv")
    assert sizes.loc[sizes["stratum"] == "all", ["volume", "n_lesions", "n_found"]].to_numpy().tolist() == [
        ["0 to 10", 4, 3],
        ["10 to 100", 4, 4],
    ]
    comparison = read_csv(folder / "lesions" / "comparison" / "comparison.csv")
    recall = comparison[(comparison["metric"] == "lesion_recall") & (comparison["stratum"] == "all")]
    assert recall["mean_difference"].tolist() == [0.375]
