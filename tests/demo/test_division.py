from collections import Counter

import numpy as np
import pytest

from nnunet_dro.demo.preparation import divide, strata_by
from nnunet_dro.nnunet.raw_dataset import read_raw_dataset


def division_of(folder, by="centre", seed=0):
    dataset = read_raw_dataset(folder)
    stratum_of_case = strata_by(dataset, by)
    return divide(dataset, stratum_of_case, rng=np.random.default_rng(seed)), stratum_of_case


def test_a_fifth_of_every_stratum_is_held_out(raw):
    division, stratum_of_case = division_of(raw({"A": 20, "B": 10, "C": 3, "D": 2}))

    assert Counter(stratum_of_case[list(division.test)]) == {"A": 4, "B": 2, "C": 1}
    assert Counter(stratum_of_case[list(division.validation)]) == {"A": 1}
    assert Counter(stratum_of_case[list(division.train)]) == {"A": 15, "B": 8, "C": 2, "D": 2}
    assert len({*division.train, *division.validation, *division.test}) == 35, "no case is in two parts"


def test_division_follows_its_seed(raw):
    folder = raw({"A": 30})

    assert division_of(folder)[0] == division_of(folder)[0]
    assert division_of(folder)[0].test != division_of(folder, seed=1)[0].test


def test_own_test_set_is_used(raw):
    division, _ = division_of(raw({"A": 12, "B": 2}, {"A": 2, "B": 2}))

    assert division.test == ("A00Ts", "A01Ts", "B00Ts", "B01Ts")
    assert len(division.train) + len(division.validation) == 14


def test_split_column_is_used(raw):
    folder = raw({"A": 6})
    splits = ["train", "train", "test", "validation", "train", "test"]
    rows = "".join(f"A{n:02d}Tr,A,{split}\n" for n, split in enumerate(splits))
    (folder / "cases.csv").write_text("case,centre,split\n" + rows)

    division, _ = division_of(folder)

    assert (division.validation, division.test) == (("A03Tr",), ("A02Tr", "A05Tr"))


def test_too_few_cases_and_an_absent_column_are_refused(raw):
    folder = raw({"A": 2, "B": 2})
    with pytest.raises(ValueError, match=r"must have enough cases, got .* to test"):
        division_of(folder)
    with pytest.raises(ValueError, match=r"got 'scanner'\. Choose one with --by: centre"):
        strata_by(read_raw_dataset(folder), "scanner")
