"""Several folds in one table, the out-of-fold validation Dice, trusted cases, and folders found
without variables."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.inspection.suspects import find_suspects, suspects_files
from nnunet_dro.nnunet.folders import folds_of
from tests.commands import done, refused

from .made_folds import fold_folder, ranked, suspects, write_log
from .test_command import read

CASES = [f"case_{n}" for n in range(10)]


def write_summary(folder, dice):
    """A validation summary in nnU-Net's form: case to the Dice of its two labels, with counts out
    of 100."""
    entries = []
    for case, values in dice.items():
        metrics = {}
        for label, value in enumerate(values, 1):
            n, tp = (0, 0) if value is None else (100, round(100 * value))
            counts = {"TP": tp, "FP": n - tp, "FN": n - tp, "n_ref": n, "n_pred": n}
            metrics[str(label)] = {"Dice": value, "IoU": None, **counts}
        files = dict.fromkeys(("prediction_file", "reference_file"), f"/elsewhere/{case}.nii.gz")
        entries.append({"metrics": metrics, **files})
    (folder / "validation").mkdir()
    (folder / "validation" / "summary.json").write_text(json.dumps({"metric_per_case": entries}))


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A cross-validation with five folds, in which case_3 has the highest loss and case_7 the
    lowest Dice."""
    for variable in ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results"):
        monkeypatch.delenv(variable, raising=False)
    rng = np.random.default_rng(0)
    for fold in range(5):
        folder = fold_folder(tmp_path / "nnUNet_results", fold=str(fold))
        validated = CASES[2 * fold : 2 * fold + 2]
        # The losses of a fold lie above those of another.
        epochs = [
            {
                case: fold + (0.9 if case == "case_3" else 0.5 * rng.random())
                for case in CASES
                if case not in validated
            }
            for _ in range(12)
        ]
        write_log(folder, "hardness.csv", epochs)
        write_summary(
            folder, {case: (0.2, None) if case == "case_7" else (0.8, 0.9) for case in validated}
        )
    return folder.parent


def test_folds_of_a_model_are_in_one_table_with_their_mean_ranks(model):
    result = done(suspects(model))
    assert result.stdout.splitlines()[-1] == str(model / "suspects.html")
    assert "loss stays highest (epochs 4 to 11, 5 folds)" in result.stdout

    table = read(model)
    assert sorted(table["case"]) == CASES

    first = table.iloc[0]
    assert first[["case", "score"]].tolist() == ["case_3", 1.0]
    assert (table["folds"] == 4).all()
    assert (table["times_seen_in_all"] == 4 * 12 * 10).all()
    # case_3 is trained on by all folds but 1.
    assert first["loss"] == pytest.approx(0.9 + np.mean([0, 2, 3, 4]), abs=1e-5)

    page = (model / "suspects.html").read_text()
    assert "<dt>Folds</dt><dd>0, 1, 2, 3, 4" in page
    assert "ranked one by one" in page

    apart = (
        pd.concat([find_suspects(fold.folder).table for fold in folds_of([model])])
        .groupby("case")["score"]
        .mean()
    )
    assert find_suspects(model).table.set_index("case")["score"].to_dict() == pytest.approx(
        apart.to_dict()
    )

    result = done(
        suspects(model / "fold_3", model / "fold_1", model / "fold_1", "-o", model / "out")
    )
    assert "2 folds" in result.stdout
    assert read(model / "out").set_index("case").loc[["case_3", "case_0"], "folds"].tolist() == [
        1,
        2,
    ]


def test_validation_dice_is_a_further_signal(model):
    result = suspects(model, "--top", 1)

    words = " ".join(result.stdout.split())

    assert (
        "1 case with a low validation Dice (over 2 SD below the median): case_7. Rank by it with --by dice."
        in words
    )
    assert "low validation Dice" not in suspects(model, "--top", 10).stdout, "case_7 is shown"

    table = read(model).set_index("case")
    assert table.loc["case_7", "validation_dice"] == pytest.approx(0.2), (
        "a label in neither map does not count"
    )
    assert table.loc["case_3", "validation_dice"] == pytest.approx(0.85)

    result = suspects(model, "--by", "dice", "--top", 2)
    assert "validation Dice is lowest (5 folds)" in result.stdout
    assert re.findall(r"^ +\d+ +(case_\d+)", result.stdout, re.MULTILINE)[0] == "case_7"

    table = read(model)
    assert table.loc[0, ["case", "score"]].tolist() == ["case_7", pytest.approx(0.2)]
    assert table["loss"].notna().all()
    assert "A low Dice marks a case to look at" in " ".join(result.stdout.split())

    suspects(model / "fold_1")

    table = read(model / "fold_1")

    assert table["case"].tolist()[-2:] == ["case_2", "case_3"]
    assert table["rank"].isna().tolist() == [False] * 8 + [True] * 2
    assert table["validation_dice"].notna().tolist() == [False] * 8 + [True] * 2
    assert table["times_seen"].tolist()[-2:] == [0, 0]


def test_training_by_nnunet_itself_is_ranked_by_dice(model):
    for path in model.glob("*/hardness.csv"):
        path.unlink()

    refused(suspects(model), "hardness.csv or weights.csv", "--by dice")

    done(suspects(model, "--by", "dice"))

    assert read(model)["case"].iloc[0] == "case_7"

    page = (model / "suspects.html").read_text()
    assert 'class="curve' not in page
    assert "Mean rank" not in page


def test_fold_without_a_log_or_a_validation_is_named(model):
    (model / "fold_2" / "hardness.csv").unlink()
    (model / "fold_4" / "validation" / "summary.json").unlink()
    (model / "fold_0" / "validation" / "summary.json").write_text("{}")

    words = " ".join(suspects(model).stdout.split())

    assert "Left out because they have no hardness.csv: fold_2." in words
    assert "No validation Dice of fold_4" in words
    assert (
        "The validation of fold_0 is left out: `prediction` must be a summary.json of nnU-Net"
        in words
    )


def test_a_prediction_of_a_training_case_does_not_count(model):
    # nnU-Net leaves the predictions of an earlier division in fold_X/validation, and counts them.
    folds = [CASES[2 * fold : 2 * fold + 2] for fold in range(5)]
    folds[3] = ["case_6"]
    splits = [{"train": [c for c in CASES if c not in val], "val": val} for val in folds]
    dataset = model.parents[1].with_name("nnUNet_preprocessed") / model.parent.name
    dataset.mkdir(parents=True)
    (dataset / "splits_final.json").write_text(json.dumps(splits))

    result = find_suspects(model, by="dice")

    rows = result.table.set_index("case")
    assert np.isnan(rows.loc["case_7", "validation_dice"])
    assert rows["validation_dice"].notna().sum() == 9
    assert any("training part of fold_3: case_7." in note for note in result.notes)


def test_validation_of_fold_all_does_not_count(model):
    folder = fold_folder(model.parents[1], fold="all")
    write_log(folder, "hardness.csv", ranked("hardness.csv", CASES))

    write_summary(folder, dict.fromkeys(CASES, (1.0, 1.0)))

    assert find_suspects(model).table["validation_dice"].max() < 1
    assert find_suspects(folder).table["validation_dice"].isna().all()

    refused(suspects(folder, "--by", "dice"), "Fold all has none")
    damaged = model / "fold_0"
    (damaged / "validation" / "summary.json").write_text("{}")
    refused(
        suspects(damaged, "--by", "dice"),
        "no usable validation/summary.json in",
        "nnUNetv2_train with --val",
    )


def test_folds_of_two_models_are_refused(model):
    other = fold_folder(model.parents[1], configuration="2d")
    write_log(other, "hardness.csv", [{"a": 1.0}])
    refused(
        suspects(model / "fold_0", other),
        "must be folds of one model",
        "__2d",
        "Give the folder of the model",
    )


def test_trusted_cases_are_marked_and_no_suspects(model):
    dataset = model.parents[2] / "nnUNet_raw" / "Dataset123_Made"
    dataset.mkdir(parents=True)

    (dataset / "cases.csv").write_text("case,trusted\ncase_3,Yes\ncase_4,no\ncase_5,\n")

    assert re.search(r"case_3 .* yes *$", suspects(model, "--top", 3).stdout, re.MULTILINE)

    table = read(model).set_index("case")
    assert table["trusted"].dropna().index.tolist() == ["case_3"]

    listed = (model / "exclusions.txt").read_text().splitlines()
    assert [line for line in listed if not line.startswith("#")] == table.index[1:3].tolist()

    page = (model / "suspects.html").read_text()
    assert "<b>case_3</b>" in page
    assert ", trusted</figcaption>" in page.replace("\n", "")

    (dataset / "cases.csv").write_text("case,trusted\ncase_3,TRUE\ncase_4,FALSE\n")
    suspects(model)
    assert read(model)["trusted"].dropna().tolist() == ["yes"], "as spreadsheets write it"

    (dataset / "cases.csv").write_text("x\n1\n")

    assert "The case table is not used: `cases` must have a column `case`" in " ".join(
        suspects(model).stdout.split()
    )


@pytest.mark.parametrize(
    ("results", "raw"),
    [("nnUNet_results", "nnUNet_raw"), ("results", "raw"), ("my_results", "my_raw")],
)
def test_raw_data_are_found_beside_the_results(tmp_path, monkeypatch, results, raw):
    monkeypatch.delenv("nnUNet_raw")
    (fold,) = folds_of([fold_folder(tmp_path / results)])

    assert fold.dataset_folder("nnUNet_raw") is None

    dataset = tmp_path / raw / "Dataset123_Made"
    dataset.mkdir(parents=True)

    assert fold.dataset_folder("nnUNet_raw") == dataset

    monkeypatch.setenv("nnUNet_raw", str(tmp_path / "set"))
    assert fold.dataset_folder("nnUNet_raw") == tmp_path / "set" / "Dataset123_Made", (
        "a variable that is set decides"
    )


@pytest.mark.parametrize("by", ["loss", "dice"])
def test_page_of_several_folds_works_in_a_browser(model, open_page, by):
    page = open_page(suspects_files(find_suspects(model, by=by, top=3), ["Look."])["suspects.html"])
    assert len(page.column(0)) == 10
    assert page.column(0)[0] == ("case_3" if by == "loss" else "case_7")

    page.check()
    assert page.one("#next li").text == "Look."
