"""What is prepared for the demo: small plans, and which cases train, validate and test."""

from collections import Counter
from copy import deepcopy

import numpy as np
import pytest

from nnunet_dro.demo.preparation import PLANS_NAME, divide, small_plans, strata_by
from nnunet_dro.nnunet.raw_dataset import read_raw_dataset


def plans(patch, strides, n_stages=5):
    kwargs = {
        "n_stages": n_stages,
        "features_per_stage": [32] * n_stages,
        "kernel_sizes": [[3] * len(patch)] * n_stages,
        "strides": strides,
        "n_conv_per_stage": [2] * n_stages,
        "n_conv_per_stage_decoder": [2] * (n_stages - 1),
    }
    parent = {"data_identifier": "nnUNetPlans_x", "batch_size": 31, "patch_size": patch}
    parent["architecture"] = {"network_class_name": "PlainConvUNet", "arch_kwargs": kwargs}
    return {"plans_name": "nnUNetPlans", "configurations": {"2d": parent}}


def test_small_configuration_inherits_and_has_three_stages():
    small = small_plans(plans([256, 96], [[1, 1]] + [[2, 2]] * 4), parent="2d")

    configuration = small["configurations"]["2d_small"]
    assert small["plans_name"] == PLANS_NAME
    assert configuration["inherits_from"] == "2d"
    assert configuration["patch_size"] == [96, 96]
    assert configuration["architecture"]["arch_kwargs"] == {
        "n_stages": 3,
        "features_per_stage": [16, 32, 64],
        "kernel_sizes": [[3, 3]] * 3,
        "strides": [[1, 1], [2, 2], [2, 2]],
        "n_conv_per_stage": [2, 2, 2],
        "n_conv_per_stage_decoder": [2, 2],
    }


def test_small_patch_is_divisible_and_a_shallow_network_keeps_its_stages():
    strides = [[1, 1, 1], [1, 2, 2], [2, 2, 2], [2, 2, 2], [1, 2, 2]]
    configurations = [
        small_plans(given, parent="2d")["configurations"]["2d_small"]
        for given in (plans([7, 30, 48], strides), plans([16, 16], [[1, 1], [2, 2]], n_stages=2))
    ]

    assert [one["patch_size"] for one in configurations] == [[6, 28, 32], [16, 16]]
    assert [one["architecture"]["arch_kwargs"]["n_stages"] for one in configurations] == [3, 2]


def test_plans_are_left_alone_and_an_absent_parent_is_refused():
    given = plans([96, 96], [[1, 1]] + [[2, 2]] * 4)
    before = deepcopy(given)
    small_plans(given, parent="2d")
    assert given == before
    with pytest.raises(ValueError, match="must be one of 2d, got '3d_fullres'"):
        small_plans(given, parent="3d_fullres")


def test_nnunet_builds_the_small_network():
    nnunet = pytest.importorskip("nnunetv2.utilities.plans_handling.plans_handler")
    given = plans([96, 96], [[1, 1]] + [[2, 2]] * 4)

    configuration = nnunet.PlansManager(small_plans(given, parent="2d")).get_configuration("2d_small")

    assert configuration.data_identifier == "nnUNetPlans_x"
    assert configuration.batch_size == 4


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


def test_own_test_set_or_split_column_is_used(raw):
    division, _ = division_of(raw({"A": 12, "B": 2}, {"A": 2, "B": 2}))
    assert division.test == ("A00Ts", "A01Ts", "B00Ts", "B01Ts")
    assert len(division.train) + len(division.validation) == 14

    folder = raw({"A": 6}, name="Dataset008_Split")
    splits = ["train", "train", "test", "validation", "train", "test"]
    rows = "".join(f"A{n:02d}Tr,A,{split}\n" for n, split in enumerate(splits))
    (folder / "cases.csv").write_text("case,centre,split\n" + rows)
    division, _ = division_of(folder)
    assert (division.validation, division.test) == (("A03Tr",), ("A02Tr", "A05Tr"))


def test_too_few_cases_are_refused(raw):
    with pytest.raises(ValueError, match=r"must have enough cases, got .* to test"):
        division_of(raw({"A": 2, "B": 2}))
