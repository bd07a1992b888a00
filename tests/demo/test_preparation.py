from copy import deepcopy

import pytest

from nnunet_dro.demo.preparation import PLANS_NAME, small_plans


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

    configuration = nnunet.PlansManager(small_plans(given, parent="2d")).get_configuration(
        "2d_small"
    )

    assert configuration.data_identifier == "nnUNetPlans_x"
    assert configuration.batch_size == 4
