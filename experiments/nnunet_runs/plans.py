"""The network that the experiments train: nnU-Net's plans with a small configuration."""

from nnunet_dro.demo.plans import small_plans

#: nnU-Net's names of the plans, and of the configuration the networks are trained with and the one it inherits from.
PLANS_NAME, CONFIGURATION, PARENT = "nnUNetPlansExperiment", "3d_fullres_small", "3d_fullres"

BATCH_SIZE = 4


def experiment_plans(plans: dict[str, object]) -> dict[str, object]:
    """The plans with the configuration of the experiment: the demo's small network with one convolution per stage.

    Args:
        plans: The contents of nnU-Net's plans file.

    Raises:
        ValueError: If they have no 3d_fullres.
    """
    small = small_plans(plans, parent=PARENT)
    small["plans_name"] = PLANS_NAME
    configuration = small["configurations"][CONFIGURATION]
    configuration["batch_size"] = BATCH_SIZE
    kwargs = configuration["architecture"]["arch_kwargs"]
    kwargs["n_conv_per_stage"] = [1] * kwargs["n_stages"]
    kwargs["n_conv_per_stage_decoder"] = [1] * (kwargs["n_stages"] - 1)
    return small
