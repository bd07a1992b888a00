import json
import re
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation.stratifying.splits import (
    fold_table,
    make_splits,
    split_dataset,
    split_notes,
    write_splits,
)
from nnunet_dro.evaluation.stratifying.stratify import stratify_all
from tests.nnunet.made_raw import make_bare


@pytest.fixture
def raw(tmp_path):
    return partial(make_bare, tmp_path)


def numbered(n):
    return [f"c{i:04d}" for i in range(n)]


def table(cases, **columns):
    return pd.DataFrame({"case": cases, **columns})


def check_form(splits, cases):
    """Every case is in exactly one `val`, and in `train` of every other fold; all sorted."""
    assert Counter(case for split in splits for case in split["val"]) == dict.fromkeys(cases, 1)
    for split in splits:
        assert split["val"]
        assert sorted([*split["train"], *split["val"]]) == sorted(cases)
        assert split["train"] == sorted(split["train"])
        assert split["val"] == sorted(split["val"])


def test_without_options_they_are_nnunets_own_folds(raw):
    from nnunetv2.utilities.crossval_split import generate_crossval_split

    cases = numbered(23)

    own = generate_crossval_split(cases, seed=12345, n_splits=5)

    assert make_splits(raw(cases), None) == [
        {part: sorted(map(str, split[part])) for part in split} for split in own
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("centre", {"A": 5, "B": 2, "missing": 1}),
        (
            "centre,age:0,18,120",
            {"A,0 to 18": 3, "A,18 to 120": 2, "B,18 to 120": 2, "missing,18 to 120": 1},
        ),
    ],
)
def test_every_stratum_is_spread_over_the_folds(raw, spec, expected):
    cases = numbered(40)
    rows = table(
        cases, centre=["A"] * 25 + ["B"] * 10 + ["missing"] * 5, age=["10"] * 15 + ["50"] * 25
    )
    splits = make_splits(raw(cases), rows, stratify=spec)
    check_form(splits, cases)

    (stratum_of,) = stratify_all(rows, [spec], cases).values()

    for split in splits:
        assert Counter(stratum_of[split["val"]]) == expected


@pytest.mark.parametrize("stratify", [None, "centre"])
def test_cases_of_a_patient_stay_together(raw, stratify):
    cases = numbered(60)
    rows = table(cases, patient=[f"p{i // 3}" for i in range(60)], centre=["A", "B"] * 30)

    splits = make_splits(raw(cases), rows, group="patient", stratify=stratify)

    check_form(splits, cases)

    of_patient = rows.set_index("case")["patient"]

    for split in splits:
        assert not set(of_patient[split["train"]]) & set(of_patient[split["val"]])
        assert len(split["val"]) == 12


@pytest.mark.parametrize("options", [{}, {"stratify": "centre"}, {"group": "patient"}])
def test_folds_follow_their_seed(raw, options):
    cases = numbered(60)
    rows = table(cases, patient=[f"p{i // 2}" for i in range(60)], centre=["A", "B"] * 30)

    folder = raw(cases)

    assert make_splits(folder, rows, **options) == make_splits(folder, rows, **options)
    assert make_splits(folder, rows, **options) != make_splits(folder, rows, seed=1, **options)


def test_every_centre_is_left_out_once_in_natural_order(raw):
    cases = numbered(7)
    centres = ["site10", "site2", "site2", "site10", "site1", "site2", "site2"]
    rows = table(cases, centre=centres, patient=["p", "q", "q", "p", "r", "s", "s"])
    splits = make_splits(raw(cases), rows, leave_out="centre", group="patient", folds=5)

    check_form(splits, cases)

    assert [split["val"] for split in splits] == [
        ["c0004"],
        ["c0001", "c0002", "c0005", "c0006"],
        ["c0000", "c0003"],
    ]


def test_rare_strata_are_dealt_out_and_noted(raw):
    cases = numbered(23)
    rows = table(cases, centre=["A"] * 20 + ["B"] * 2 + ["C"])
    strata = stratify_all(rows, ["centre"], cases)["centre"]

    splits = make_splits(raw(cases), rows, stratify="centre")

    check_form(splits, cases)

    assert max(len(set(split["val"]) & {"c0020", "c0021"}) for split in splits) == 1

    first, second = split_notes(splits, strata)
    assert re.fullmatch(r"centre=B has 2 cases: folds \d, \d, \d validate on none of them\.", first)
    assert re.fullmatch(
        r"centre=C has 1 case: folds \d, \d, \d, \d validate on none of them\.", second
    )


def test_note_names_the_folds_that_lack_a_stratum(raw):
    strata = pd.Series(["A", "A", "B", "B"], index=list("abcd"), name="centre")
    splits = [{"train": ["c", "d"], "val": ["a", "b"]}, {"train": ["a", "b"], "val": ["c", "d"]}]

    said = "centre={} has 2 cases: fold {} validates on none of them."

    assert split_notes(splits, strata) == [said.format("A", 1), said.format("B", 0)]

    splits = [{"train": ["a", "b"], "val": ["c"]}, {"train": ["c"], "val": ["a", "b"]}]
    strata = stratify_all(
        table(["a", "b", "c"], site=["s10", "s10", "s2"]), ["site"], ["a", "b", "c"]
    )["site"]

    expected = [(0, "s2", 0, 1), (0, "s10", 2, 0), (1, "s2", 1, 0), (1, "s10", 0, 2)]

    assert list(fold_table(splits, strata).itertuples(index=False, name=None)) == expected
    assert fold_table(splits, strata).columns.tolist() == [
        "fold",
        "stratum",
        "n_training",
        "n_validation",
    ]


@pytest.mark.parametrize("group", [None, "patient"])
def test_strata_that_are_all_rare_are_dealt_out(raw, group):
    cases = numbered(12)
    rows = table(cases, centre=[f"s{i // 2}" for i in range(12)], patient=cases)
    splits = make_splits(raw(cases), rows, stratify="centre", group=group)

    check_form(splits, cases)

    for split in splits:
        assert len({rows["centre"][cases.index(case)] for case in split["val"]}) == len(
            split["val"]
        )


def test_folds_of_random_groups_and_strata_are_whole(raw):
    two = table(["a", "b"], patient=["p", "q"], centre=["A", "B"])
    folder = raw(["a", "b"], name="Dataset008_Two")
    check_form(make_splits(folder, two, group="patient", stratify="centre", folds=2), ["a", "b"])
    rng = np.random.default_rng(0)
    cases = numbered(30)
    folder = raw(cases)
    for _ in range(30):
        patients = [f"p{i}" for i in [*range(5), *rng.integers(0, rng.integers(5, 30), 25)]]
        rows = table(
            cases,
            patient=patients,
            centre=[f"s{i}" for i in rng.integers(0, rng.integers(1, 12), 30)],
        )
        check_form(make_splits(folder, rows, group="patient", stratify="centre"), cases)


def test_five_thousand_cases(raw):
    cases = numbered(5000)
    patients = [f"p{i // 2}" for i in range(5000)]
    centres = [f"s{i % 7}" for i in range(5000)]
    # A row of another case plays no part.
    rows = table([*cases, "test_1"], patient=[*patients, "missing"], centre=[*centres, "missing"])
    splits = make_splits(raw(cases), rows, group="patient", stratify="centre")

    check_form(splits, cases)

    assert all(990 <= len(split["val"]) <= 1010 for split in splits)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "`folds` must be at least 2, got 1"),
        ({"folds": 7}, "at most the number of cases, 6, got 7"),
        ({"group": "patient", "folds": 4}, "at most the number of entries of 'patient', 3, got 4"),
        (
            {"group": "scanner"},
            "`group` must be a column of the case table, got 'scanner'. Choose from: patient",
        ),
        ({"leave_out": "case"}, "`leave_out` must be a column"),
        ({"stratify": "scanner"}, "`stratify` must be a column"),
        (
            {"group": "gaps", "folds": 2},
            "`gaps` must have an entry for every case, got none for c0001, c0003",
        ),
        (
            {"leave_out": "gaps"},
            "`gaps` must have an entry for every case, got none for c0001, c0003",
        ),
        (
            {"leave_out": "same"},
            "`same` must have two entries or more to leave one out, got 'x' only",
        ),
        ({"leave_out": "centre", "group": "patient"}, "together, got 'q' in A, B"),
        ({"leave_out": "centre", "stratify": "same"}, "one of --stratify and --leave-out"),
    ],
)
def test_unusable_options_are_refused(raw, options, message):
    cases = numbered(6)
    gaps = ["1", "missing", "1", "missing", "2", "2"]

    rows = table(cases, patient=list("ppqqrr"), centre=list("AAABBB"), gaps=gaps, same=["x"] * 6)

    with pytest.raises(ValueError, match=message):
        make_splits(raw(cases), rows, **options)


def test_case_without_a_row_and_option_without_a_table_are_refused(raw):
    cases = numbered(6)
    folder = raw(cases)

    with pytest.raises(ValueError, match="a row for every case, got none for c0005"):
        make_splits(folder, table(cases[:5], centre=["A"] * 5), stratify="centre")
    for option in ("stratify", "group", "leave_out"):
        with pytest.raises(ValueError, match="--cases"):
            make_splits(folder, None, **{option: "centre"})


def test_file_that_is_there_is_replaced_by_force_only(tmp_path):
    path = tmp_path / "new" / "splits_final.json"
    write_splits([{"train": ["a"], "val": ["b"]}], path)

    with pytest.raises(FileExistsError, match="--force"):
        write_splits([], path)
    assert json.loads(path.read_text()) == [{"train": ["a"], "val": ["b"]}]

    write_splits([], path, force=True)
    assert json.loads(path.read_text()) == []
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    with pytest.raises(FileExistsError, match="must be a new file"):
        write_splits([], tmp_path, force=True)
    with pytest.raises(PermissionError, match=r"must be writable, .* another folder"):
        write_splits([], Path("/proc/splits.json"))


def test_a_patient_with_two_spellings_is_noted(raw, tmp_path):
    """By the table these are two patients, who may be in two folds."""
    folder = raw(["c0", "c1", "c2", "c3"])
    cases = table(["c0", "c1", "c2", "c3"], patient=["p1", "P1", "p2", "p3"])
    cases.to_csv(tmp_path / "cases.csv", index=False)

    written = split_dataset(
        str(folder),
        tmp_path / "cases.csv",
        group="patient",
        folds=4,
        output=tmp_path / "splits.json",
    )

    assert "patient has entries that may mean the same: P1 = p1." in written.notes[0]


def test_nnunet_trains_and_validates_on_these_folds(raw, tmp_path):
    from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer
    from nnunetv2.utilities.utils import get_identifiers_from_splitted_dataset_folder

    cases = [f"fäll {i}" for i in range(10)]
    folder = raw(cases)
    splits = make_splits(folder, table(cases, centre=["A"] * 5 + ["B"] * 5), stratify="centre")
    write_splits(splits, tmp_path / "splits_final.json")

    identifiers = get_identifiers_from_splitted_dataset_folder(str(folder / "imagesTr"), ".nii.gz")
    for fold, split in enumerate(splits):
        trainer = SimpleNamespace(
            dataset_class=lambda *_, **__: SimpleNamespace(identifiers=identifiers),
            fold=fold,
            preprocessed_dataset_folder=str(tmp_path),
            preprocessed_dataset_folder_base=str(tmp_path),
            folder_with_segs_from_previous_stage=None,
            print_to_log_file=lambda *_: None,
        )
        train, val = nnUNetTrainer.do_split(trainer)
        assert (train, val) == (split["train"], split["val"])
        assert set(train) | set(val) == set(identifiers)
