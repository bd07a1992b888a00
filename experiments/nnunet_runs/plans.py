"""The network that the experiments train: nnU-Net's plans with a small configuration."""

from collections.abc import Sequence

from nnunet_dro.demo.preparation import small_plans

#: nnU-Net's names of the plans, and of the configuration the networks are trained with and the one it inherits from.
PLANS_NAME, CONFIGURATION, PARENT = "nnUNetPlansExperiment", "3d_fullres_small", "3d_fullres"

#: Cases in a batch.
BATCH_SIZE = 4


def experiment_plans(
    plans: dict[str, object],
    *,
    parent: str = PARENT,
    batch_size: int = BATCH_SIZE,
    patch_size: Sequence[int] | None = None,
    features: Sequence[int] | None = None,
    n_convolutions: int = 1,
) -> dict[str, object]:
    """nnU-Net's plans with the configuration of the experiment, a small network that inherits from the parent."""
    small = small_plans(plans, parent=parent)
    small["plans_name"] = PLANS_NAME
    configuration = small["configurations"][f"{parent}_small"]
    configuration["batch_size"] = batch_size
    if patch_size is not None:
        configuration["patch_size"] = list(patch_size)
    kwargs = configuration["architecture"]["arch_kwargs"]
    if features is not None:
        parents = plans["configurations"][parent]["architecture"]["arch_kwargs"]  # type: ignore[index]
        kwargs |= {"n_stages": len(features), "features_per_stage": list(features)}
        kwargs |= {name: parents[name][: len(features)] for name in ("kernel_sizes", "strides")}
    kwargs["n_conv_per_stage"] = [n_convolutions] * kwargs["n_stages"]
    kwargs["n_conv_per_stage_decoder"] = [n_convolutions] * (kwargs["n_stages"] - 1)
    return small
