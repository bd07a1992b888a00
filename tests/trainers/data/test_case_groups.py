import pandas as pd
import pytest

from nnunet_dro.files.case_table import find_case_table
from nnunet_dro.trainers.data.case_groups import (
    dataset_folders,
    groups_of,
    watched_groups,
    weights_of,
)
from nnunet_dro.trainers.data.dataloading import loader_of
from tests.trainers.draws import log_of, run_epoch


@pytest.fixture
def trainer(make_trainer):
    return make_trainer("nnUNetTrainerIW_site")


CASES = [f"case_{i:02d}" for i in range(4)]


def test_groups_and_weights_are_those_of_the_preprocessed_or_raw_table(
    trainer, project, preprocessed_table
):
    assert find_case_table(*dataset_folders(trainer)) == project("labels").raw / "cases.csv"
    assert groups_of(trainer, CASES, column="site") == ["a", "b", "b", "a"]

    preprocessed_table.write_text(
        "case;sit\u00e9\n" + "".join(f"{case};{case[-1]}\n" for case in reversed(CASES))
    )
    assert find_case_table(*dataset_folders(trainer)) == preprocessed_table
    # The column may be typed in another of Unicode's forms.
    assert groups_of(trainer, CASES, column="site\u0301") == ["0", "1", "2", "3"]

    pd.DataFrame({"case": CASES[::-1], "site": ["1e3", "0", ".5", "7"]}).to_csv(
        preprocessed_table, index=False
    )
    assert [float(weight) for weight in weights_of(trainer, CASES, column="site")] == [
        7,
        0.5,
        0,
        1000,
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "case,centre\ncase_00,a\n",
            "`site` must be a column of .*cases.csv, which has centre. Add it",
        ),
        ("case\ncase_00\n", "which has none"),
        (
            "case,site\ncase_00,a\ncase_01,b\n",
            "an entry for every training case in .*, got none for case_02, case_03.",
        ),
        (
            "case,site\ncase_00,a\ncase_01,b\ncase_02,\ncase_03,n/a\n",
            "got none for case_02, case_03.",
        ),
        (
            "case,site\ncase_00,a\ncase_01,a\ncase_02,a\ncase_03,a\ncase_09,b\n",
            "at least two groups, got only 'a' in",
        ),
        ("patient,site\nx,a\n", "must have a column `case`"),
    ],
)
def test_a_case_table_that_does_not_divide_the_cases_is_refused(
    trainer, preprocessed_table, text, message
):
    preprocessed_table.write_text(text)
    with pytest.raises(ValueError, match=message):
        groups_of(trainer, CASES, column="site")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (
            ["1", "", "n/a", "3"],
            "an entry for every training case in .*cases.csv, got none for case_01, case_02. Fill",
        ),
        (
            ["1", "-1", "2", "-3"],
            "a finite number >= 0 as the weight .*cases.csv, got '-1' for case_01, case_03. Correct",
        ),
        (
            ["1", "inf", "2", "3"],
            "got 'inf' for case_01. Correct it, or leave out `asWeights` if these are groups.",
        ),
        (["1", "1e999", "2", "3"], "got '1e999' for case_01."),
        (["a", "1", "b", "true"], "got 'a' for case_00, case_02, case_03."),
        (["1", "2", "0,5", "3"], "got '0,5' for case_02."),
        (
            ["0", "0.0", "0", "-0"],
            "a weight > 0 for a training case of fold 0 in .*cases.csv, got 0 for all. Correct",
        ),
    ],
)
def test_a_column_that_has_no_weights_is_refused(trainer, preprocessed_table, weights, message):
    pd.DataFrame({"case": CASES, "site": weights}).to_csv(preprocessed_table, index=False)
    with pytest.raises(ValueError, match=message):
        weights_of(trainer, CASES, column="site")


def test_the_log_says_where_one_group_may_have_two_names(make_trainer, preprocessed_table):
    trainer = make_trainer("nnUNetTrainerIW_site", "2d_small")
    training, _ = trainer.do_split()
    sites = ["Bonn", "bonn"] * 4
    rows = "".join(f"{case},{site}\n" for case, site in zip(training, sites, strict=True))
    preprocessed_table.write_text(f"case,site\n{rows}")
    trainer.initialize()

    trainer.on_train_start()

    assert "site has entries that may mean the same: Bonn = bonn. They count" in log_of(trainer)


@pytest.mark.parametrize(
    ("name", "column", "entries"),
    [
        ("GroupDRO_dose", "dose", "12"),
        ("IW_dose", "dose", "12"),
        ("IW_dose_asWeights", "dose", "12"),
        ("L2RW", "trusted", ["yes", "no"]),
    ],
)
def test_a_training_that_goes_on_says_whose_entry_has_changed(
    make_trainer, preprocessed_table, name, column, entries
):
    a, b = entries
    logs = []
    path = None
    for column_now in (
        [a, a, a, a, b, b, b, b],
        [a, a, a, a, b, b, b, b],
        [a, b, a, a, b, b, b, a],
    ):
        trainer = make_trainer(f"nnUNetTrainer{name}", "2d_small")
        cases, _ = trainer.do_split()
        rows = "".join(f"{case},{entry}\n" for case, entry in zip(cases, column_now, strict=True))
        preprocessed_table.write_text(f"case,{column}\n{rows}")
        trainer.log_file = f"{trainer.log_file}.{len(logs)}"
        trainer.initialize()
        if path is not None:
            trainer.load_checkpoint(path)

        trainer.on_train_start()
        path = f"{trainer.output_folder}/checkpoint_latest.pth"
        trainer.save_checkpoint(path)
        logs.append(log_of(trainer))

    changed = (
        f"WARNING: the column `{column}` of the case table has changed since the checkpoint for 2 of "
        f"8 training cases ({cases[1]}, {cases[7]}). The training goes on with what it has now."
    )
    assert [changed in log for log in logs] == [False, False, True]
    assert ["has changed since" in log for log in logs] == [False, False, True]


def test_a_case_of_weight_0_is_never_drawn_even_where_a_batch_has_room(
    make_trainer, preprocessed_table
):
    """The batch has six places, and two cases have a weight."""
    trainer = make_trainer("nnUNetTrainerIW_w_asWeights", "2d_small")
    training, validation = trainer.do_split()
    drawn = sorted(training)[:2]
    rows = "".join(f"{case},{int(case in drawn)}\n" for case in training)
    preprocessed_table.write_text(f"case,w\n{rows}")
    trainer.initialize()

    trainer.on_train_start()

    assert {case for _ in range(4) for case in next(trainer.dataloader_train)["keys"]} == {*drawn}
    assert len(loader_of(trainer.dataloader_val).indices) == len(validation)
    assert (
        "Never drawn: 6 of 8 training cases, whose weight in the column `w` is 0: case_0"
        in log_of(trainer)
    )


@pytest.mark.usefixtures("without_case_table")
def test_a_dataset_without_a_case_table_is_told_where_to_put_one(trainer):
    with pytest.raises(
        FileNotFoundError,
        match=r"Write .*preprocessed.*cases\.csv or .*raw.*cases\.csv with a column",
    ):
        groups_of(trainer, CASES, column="site")
    assert watched_groups(trainer, CASES) == {}


def test_columns_of_a_few_groups_are_watched(trainer, preprocessed_table):
    rows = pd.DataFrame(
        {"case": [f"c{i}" for i in range(20)], "sex": list("mf") * 10, "age": range(20), "all": "x"}
    )
    rows.head(19).to_csv(preprocessed_table, index=False)

    watched = watched_groups(trainer, rows["case"].tolist())

    assert watched == {"sex": [*list("mf") * 9, "m", "missing"], "all": ["x"] * 19 + ["missing"]}


@pytest.mark.parametrize(
    ("entries", "is_watched"),
    [
        (["512", "584", "1024", "2144"], False),
        (["0.5", "1.5"], False),
        (["0,5", "1,5"], False),
        (["1", "2", "3", "4", "5", "6"], False),
        (["missing", "700"], False),
        (["0", "1", "2", "3", "4"], True),
        (["missing", "1", "2"], True),
        (["512x512", "584x565"], True),
    ],
)
def test_no_group_is_a_number_that_is_measured(trainer, preprocessed_table, entries, is_watched):
    rows = pd.DataFrame({"case": [f"c{i}" for i in range(30)], "width": (entries * 15)[:30]})
    rows.to_csv(preprocessed_table, index=False)

    assert list(watched_groups(trainer, rows["case"].tolist())) == ["width"] * is_watched


def test_every_trainer_logs_the_share_of_draws_per_group(start):
    trainer, _ = start("nnUNetTrainerHWS_beta10")
    trainer.on_train_start()
    _, drawn = (run_epoch(trainer, epoch, n_steps=3) for epoch in range(2))
    rows = pd.read_csv(f"{trainer.output_folder}/training.csv")

    share = sum(int(case[-2:]) % 3 == 0 for case in drawn) / 6

    assert rows["draws[site=a]"].iloc[-1] == pytest.approx(share, abs=1e-5)
    assert (rows["draws[site=a]"] + rows["draws[site=b]"]).tolist() == pytest.approx(
        [1, 1], abs=1e-5
    )

    losses = trainer.hardness_log.table.losses
    mine = [i for i, case in enumerate(trainer.hardness_log.table.cases) if int(case[-2:]) % 3 == 0]
    known = pd.Series(losses[mine]).dropna()

    assert rows["loss[site=a]"].iloc[-1] == pytest.approx(known.mean(), rel=1e-4)
    assert "weight[a]" not in rows


def test_an_unreadable_case_table_does_not_stop_a_training_that_needs_none(
    start, preprocessed_table
):
    preprocessed_table.write_text("patient,site\nx,a\n")
    trainer, _ = start("nnUNetTrainerHWS_beta10")

    warning = "WARNING: the log will not show the share of draws per group: `cases` must have a column `case`"

    assert warning in log_of(trainer)
    assert trainer.hardness_log.groups == {}
