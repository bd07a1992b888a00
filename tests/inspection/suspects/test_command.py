import re
import shutil

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.inspection.suspects import find_suspects
from tests.commands import done, refused
from tests.kept.folders import VERSION_0_2

from .made_folds import LOGS, fold_folder, ranked, suspects, write_log


def read(folder):
    return pd.read_csv(
        folder / "suspects.csv", dtype={"case": str}, keep_default_na=False, na_values=[""]
    )


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No dataset is found."""
    monkeypatch.setenv("nnUNet_raw", str(tmp_path / "none"))
    monkeypatch.delenv("nnUNet_preprocessed")
    return tmp_path


@pytest.mark.parametrize("file", LOGS)
def test_ranking_of_a_project_with_its_pictures(project, tmp_path, file):
    here = project("labels")
    order = ["case_07", "gone.x", "case_02", "case_05", "case_00"]
    folder = fold_folder(tmp_path, here.dataset, "3d_small")
    write_log(folder, file, ranked(file, order))

    result = done(suspects(folder, "--top", 4))

    assert result.stdout.splitlines()[-1] == str(folder / "suspects.html")
    assert re.findall(r"^ +\d+ +([a-z]+[_.]\w+)", result.stdout, re.MULTILINE) == order[:4]
    assert "marks a case to look at, not an error" in " ".join(result.stdout.split())
    assert "no longer in" in result.stdout

    table = read(folder)
    assert table["case"].tolist() == order
    assert table["rank"].tolist() == [1, 2, 3, 4, 5]
    assert table["times_seen"].tolist() == [60] * 5
    assert "gone.x_0000.nii.gz is not in" in table.loc[1, "picture"]
    assert pd.isna(table.loc[0, "picture"])

    page = (folder / "suspects.html").read_text(encoding="utf-8")
    assert "no longer in the dataset: gone.x_0000.nii.gz" in page
    assert page.count('<figure class="picture"') == 4
    assert page.count('href="data:image/webp;base64,') == 3
    assert page.count('href="#image-') == 3, "the same slice again, without outlines"
    assert page.count('<path class="label s0" d="M') == 3 + 1, "one in the legend"
    assert "marks a case to look at, not an error" in page
    assert "http" not in page.replace("http-equiv", "")


@pytest.mark.parametrize("file", LOGS)
def test_without_a_dataset_there_are_the_table_and_a_sentence(nowhere, file):
    folder = fold_folder(nowhere, fold="all")
    write_log(folder, file, ranked(file, ["a", "[red]<script>b"]))

    result = done(suspects(folder, "-o", nowhere / "new" / "out"))

    assert "[red]<script>b" in result.stdout

    page = (nowhere / "new" / "out" / "suspects.html").read_text(encoding="utf-8")
    none = "No pictures: neither the raw dataset nor its preprocessed arrays were found; set nnUNet_raw to the folder"

    for told in (result.stdout, page):
        assert f"{none} that holds Dataset123_Made." in " ".join(told.split())
    assert "data:image/webp" not in page
    assert "<script>b" not in page
    assert page.count('class="curve s1" points=') == 2
    assert not (folder / "suspects.html").exists()

    done(suspects(folder, "-o", nowhere / "new" / "out"))


@pytest.mark.parametrize("file", LOGS)
def test_seldom_seen_cases_are_marked(nowhere, file):
    folder = fold_folder(nowhere)
    epochs = [{"often": 0.5, "seldom": 0.5, "never": None}] * 6
    write_log(
        folder,
        file,
        epochs,
        [{"often": 2, "seldom": 1 if n == 5 else 0, "never": 0} for n in range(6)],
    )

    out = " ".join(suspects(folder).stdout.split())

    assert "1† 1" in out
    assert "marked †: 1 case of 2" in out
    assert "therefore not ranked: 1 case" in out
    assert "holds 6 epochs: too few" in out

    table = read(folder).set_index("case")
    assert table[["score", "rank"]].isna().all(axis=1).to_dict() == {
        "often": False,
        "seldom": False,
        "never": True,
    }


def test_losses_go_before_weights_which_show_them(nowhere):
    folder = fold_folder(nowhere)
    write_log(folder, "weights.csv", ranked("weights.csv", ["a", "b"]))
    write_log(folder, "hardness.csv", ranked("hardness.csv", ["b", "a"]))

    result = suspects(folder)

    assert "loss stays highest (epochs 3 to 8)" in result.stdout
    assert read(folder)["case"].tolist() == ["b", "a"]

    result = suspects(folder, "--by", "weight")
    assert "weight stays lowest" in result.stdout
    assert read(folder)["case"].tolist() == ["a", "b"]
    np.testing.assert_allclose(read(folder)["loss"], [0.1, 0.3], rtol=1e-5)


def test_a_network_that_saw_nothing_yet_leaves_an_empty_page(nowhere):
    folder = fold_folder(nowhere)
    write_log(folder, "hardness.csv", [{"a": None, "b": None}])

    done(suspects(folder))

    assert read(folder)["score"].isna().all()
    assert '<figure class="picture"' not in (folder / "suspects.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", ["Dataset1_X/T__P__2d", "T__P/fold_0", "Dataset1_X/T__P__2d/fold_x", "fold_0"]
)
def test_folder_of_something_else_is_refused(nowhere, path):
    folder = nowhere / path
    refused(suspects(folder), folder, "which does not exist")
    folder.mkdir(parents=True)
    write_log(folder, "hardness.csv", [{"a": 1.0}])
    refused(
        suspects(folder),
        folder,
        "TRAINER__PLANS__CONFIGURATION/fold_X",
        "Give the folder of one fold",
    )


LOG = {"hardness.csv": "epoch,case,loss,probability,draws\n0,a,1.0,0.1,3\n"}


@pytest.mark.parametrize(
    ("files", "options", "words"),
    [
        ({}, (), ("hardness.csv or weights.csv", "nnUNetTrainerL2RW", "--by dice")),
        *(({file: "epoch,case\n0,x\n"}, (), (file, "must be a table of")) for file in LOGS),
        (LOG, ("--by", "weight"), ("no weights.csv in", "Leave it out.")),
        (LOG, ("--by", "dice"), ("no validation/summary.json in",)),
        (LOG, ("--by", "size"), ("'size' is not one of 'loss', 'weight', 'dice'",)),
        *((LOG, ("--top", top), ("`--top` must be 1 or more", top)) for top in (0, -3)),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(nowhere, files, options, words):
    folder = fold_folder(nowhere)
    for name, text in files.items():
        (folder / name).write_text(text)

    refused(suspects(folder, *options), *words)

    assert [path.name for path in folder.iterdir()] == list(files)


def test_what_ranks_is_checked_in_python_too(nowhere):
    with pytest.raises(ValueError, match="`by` must be loss, weight or dice, got 'size'"):
        find_suspects(fold_folder(nowhere), by="size")

    folder = fold_folder(nowhere)
    write_log(folder, "hardness.csv", [{"a": 1.0}])
    (nowhere / "file").touch()
    refused(suspects(folder, "-o", nowhere / "file"), nowhere / "file", "must be a folder")
    refused(suspects(folder, "-o", "/proc/results"), "/proc", "must be writable")


@pytest.mark.parametrize(
    ("trainer", "first"),
    [("nnUNetTrainerDRO_2epochs_4iters", "loss"), ("nnUNetTrainerL2RW_2epochs_4iters", "weight")],
)
def test_logs_of_version_0_2_are_ranked(tmp_path, trainer, first):
    kept = VERSION_0_2 / "trainings" / trainer
    folder = fold_folder(tmp_path)
    for path in kept.glob("*.csv"):
        shutil.copy(path, folder)
    done(suspects(folder, "--by", first))

    table = pd.read_csv(folder / "suspects.csv", dtype={"case": str})

    assert sorted(table["case"]) == sorted(set(pd.read_csv(kept / "hardness.csv")["case"]))
    assert table["times_seen"].sum() == 2 * 4 * 6, "two epochs of four batches of six"
