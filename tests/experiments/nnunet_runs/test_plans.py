from experiments.nnunet_runs.plans import CONFIGURATION, PLANS_NAME, experiment_plans
from tests.experiments.made_studies import PLANS


def test_small_configuration_inherits_from_the_planned_one():
    plans = experiment_plans(PLANS)

    small = plans["configurations"][CONFIGURATION]
    kwargs = small["architecture"]["arch_kwargs"]
    assert (small["inherits_from"], small["batch_size"], small["patch_size"]) == ("3d_fullres", 4, [24, 24, 24])
    assert kwargs["features_per_stage"] == [8, 16, 32]
    assert (kwargs["n_conv_per_stage"], kwargs["n_conv_per_stage_decoder"]) == ([1, 1, 1], [1, 1])
    assert plans["plans_name"] == PLANS_NAME
    assert "3d_fullres_small" not in PLANS["configurations"], "the plans given stay as they are"
    plans = experiment_plans(PLANS, features=(4, 8), n_convolutions=2)
    kwargs = plans["configurations"][CONFIGURATION]["architecture"]["arch_kwargs"]
    planned = PLANS["configurations"]["3d_fullres"]["architecture"]["arch_kwargs"]
    assert (kwargs["n_stages"], kwargs["features_per_stage"]) == (2, [4, 8])
    assert (kwargs["strides"], kwargs["kernel_sizes"]) == (planned["strides"][:2], planned["kernel_sizes"][:2])
    assert (kwargs["n_conv_per_stage"], kwargs["n_conv_per_stage_decoder"]) == ([2, 2], [2])
