"""The network that the experiments train: nnU-Net's plans with a small configuration."""

from nnunet_dro.demo.plans import small_plans

#: nnU-Net's names of the plans, and of the configuration the networks are trained with and the one it inherits from.
PLANS_NAME, CONFIGURATION, PARENT = "nnUNetPlansExperiment", "3d_fullres_small", "3d_fullres"

#: Cases, or slices, in a batch, by the configuration that the small one inherits from.
BATCH_SIZES = {"2d": 16, PARENT: 4}
BATCH_SIZE = BATCH_SIZES[PARENT]


def experiment_plans(plans: dict[str, object], *, parent: str = PARENT) -> dict[str, object]:
    """The plans with the configuration of the experiment: the demo's small network with one convolution per stage.

    Args:
        plans: The contents of nnU-Net's plans file.
        parent: The configuration that it inherits from, one of `BATCH_SIZES`.

    Raises:
        ValueError: If they have no such configuration.
    """
    small = small_plans(plans, parent=parent)
    small["plans_name"] = PLANS_NAME
    configuration = small["configurations"][f"{parent}_small"]
    configuration["batch_size"] = BATCH_SIZES[parent]
    kwargs = configuration["architecture"]["arch_kwargs"]
    kwargs["n_conv_per_stage"] = [1] * kwargs["n_stages"]
    kwargs["n_conv_per_stage_decoder"] = [1] * (kwargs["n_stages"] - 1)
    return small
