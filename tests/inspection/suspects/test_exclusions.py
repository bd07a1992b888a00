"""From the suspects to folds without them."""

import json

import pytest

from tests.commands import done, refused

from .made_folds import fold_folder, ranked, suspects, write_log

ORDER = ["wrong", "hard", "Jürgen", "right", "fine"]
SPLITS = [
    {"train": ["wrong", "hard", "Jürgen", "right"], "val": ["fine"]},
    {"train": ["hard", "Jürgen", "right", "fine"], "val": ["wrong"]},
]


@pytest.fixture
def fold(tmp_path, monkeypatch):
    monkeypatch.delenv("nnUNet_raw")
    monkeypatch.setenv("nnUNet_preprocessed", str(tmp_path / "preprocessed"))
    own = tmp_path / "preprocessed" / "Dataset123_Made"
    own.mkdir(parents=True)
    (own / "splits_final.json").write_text(json.dumps(SPLITS))
    folder = fold_folder(tmp_path / "results")
    write_log(folder, "hardness.csv", ranked("hardness.csv", ORDER, n_epochs=12))
    return folder


def listed(folder):
    lines = (folder / "exclusions.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def own_file(fold):
    return fold.parents[3] / "preprocessed" / "Dataset123_Made" / "splits_final.json"


def test_suspects_are_listed_and_the_next_step_is_told(fold):
    result = suspects(fold, "--top", 2)

    assert listed(fold) == ["wrong", "hard"]

    words = " ".join(result.stdout.split())
    assert "Next: To train without some cases: exclusions.txt in" in words
    assert "give the same command with --write-splits" in words

    page = (fold / "suspects.html").read_text()
    assert "<h2>What to do next</h2>" in page
    assert "give the same command with --write-splits" in page
    assert not (fold / "splits_final.json").exists()


def test_cases_that_were_hardly_seen_are_not_listed(fold):
    epochs = ranked("hardness.csv", ORDER, n_epochs=3)
    seen_once = dict.fromkeys(ORDER, 9) | {"wrong": 1}
    write_log(fold, "hardness.csv", epochs, times=[seen_once] * 3)
    suspects(fold, "--top", 2)
    assert listed(fold) == ["hard"]

    (fold / "exclusions.txt").unlink()
    write_log(fold, "hardness.csv", epochs, times=1)
    words = " ".join(suspects(fold, "--top", 2).stdout.split())
    assert listed(fold) == []
    assert "lists no case. The first cases are trusted, or were seen fewer than 5 times" in words


def test_list_that_was_edited_is_kept_and_left_out_of_training(fold):
    suspects(fold, "--top", 3)
    before = own_file(fold).read_bytes()
    path = fold / "exclusions.txt"
    path.write_text(path.read_text(encoding="utf-8").replace("hard\n", "") + "\n", encoding="utf-8")

    result = done(suspects(fold, "--top", 3, "--write-splits"))

    assert listed(fold) == ["wrong", "Jürgen", ""]

    kept = [
        {"train": ["hard", "right"], "val": ["fine"]},
        {"train": ["hard", "right", "fine"], "val": ["wrong"]},
    ]
    assert json.loads((fold / "splits_final.json").read_bytes().decode("ascii")) == kept, (
        "validation cases stay"
    )
    assert own_file(fold).read_bytes() == before

    # A long path is broken wherever a line ends.
    letters = "".join(result.stdout.split())
    assert "splits_final.json'leavesthe2casesofexclusions.txtoutoftraining" in letters
    assert str(own_file(fold)) in letters
    assert "anothernnUNet_results" in letters

    done(suspects(fold, "--write-splits"))


def test_without_a_list_the_first_cases_are_left_out(fold):
    done(suspects(fold, "--top", 1, "--write-splits", "-o", fold / "new"))
    assert json.loads((fold / "new" / "splits_final.json").read_text())[0]["train"] == [
        "hard",
        "Jürgen",
        "right",
    ]
    assert listed(fold / "new") == ["wrong"]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"wrong\nstranger\n", ["--write-splits"], "must name cases of the folds, got stranger"),
        (
            "wrong\nhard\nJürgen\nright\n".encode(),
            ["--write-splits"],
            "must leave training cases, got none for fold 0",
        ),
        (b"\xff\xfe\x00w", [], "`exclusions.txt` must be text in UTF-8"),
    ],
)
def test_list_that_cannot_be_used_is_refused(fold, content, options, message):
    (fold / "exclusions.txt").write_bytes(content)
    refused(suspects(fold, *options), message)

    assert not (fold / "splits_final.json").exists()
    assert not (fold / "suspects.csv").exists()

    if options:
        done(suspects(fold))


def test_folds_of_nnunet_must_be_found_and_usable(fold, monkeypatch):
    own_file(fold).write_text("{}")
    refused(
        suspects(fold, "--write-splits", "--top", 1),
        "`splits_final.json` must be a list of folds",
        own_file(fold),
    )
    own_file(fold).unlink()
    refused(
        suspects(fold, "--write-splits"), "needs nnU-Net's splits_final.json", own_file(fold).parent
    )
    monkeypatch.setenv("nnUNet_preprocessed", "")
    own_file(fold).parent.rmdir()
    refused(
        suspects(fold, "--write-splits"),
        "got no folder nnUNet_preprocessed",
        "Set nnUNet_preprocessed",
    )


def test_file_of_nnunet_is_never_written(fold):
    before = own_file(fold).read_bytes()
    for folder in (own_file(fold).parent, own_file(fold).parents[1] / "Dataset124_Other"):
        refused(
            suspects(fold, "--write-splits", "-o", folder),
            "`--output` must not be a dataset's folder",
            folder,
        )

    assert own_file(fold).read_bytes() == before
    assert not (own_file(fold).parent / "exclusions.txt").exists()


def test_a_case_whose_name_begins_with_a_hash_is_no_comment(fold):
    write_log(fold, "hardness.csv", ranked("hardness.csv", ["#1", *ORDER], n_epochs=12))
    own_file(fold).write_text(json.dumps([{"train": ["#1", "hard"], "val": ["fine"]}]))

    done(suspects(fold, "--top", 1))
    done(suspects(fold, "--top", 1, "--write-splits"))

    assert json.loads((fold / "splits_final.json").read_text())[0]["train"] == ["hard"]
