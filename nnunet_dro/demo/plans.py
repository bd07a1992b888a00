"""Plans with a small configuration, which inherits from one that nnU-Net has planned."""

from copy import deepcopy
from typing import Any

import numpy as np

#: Name of the plans file with the small configuration (nnU-Net's ``-p``).
PLANS_NAME = "nnUNetPlansDemo"

#: Number of stages of the small network; its features, largest patch and batch size by number of dimensions.
N_STAGES = 3
FEATURES = {2: (16, 32, 64), 3: (8, 16, 32)}
MAX_PATCH = {2: 96, 3: 32}
BATCH_SIZE = {2: 4, 3: 2}


def small_plans(plans: dict[str, Any], *, parent: str) -> dict[str, Any]:
    """Add a configuration ``PARENT_small`` to nnU-Net's plans, which uses the parent's preprocessed data.

    Its network has the first stages of the parent's (kernels, strides) with fewer features.
    """
    configurations = plans["configurations"]
    if parent not in configurations:
        known = ", ".join(configurations)
        raise ValueError(f"`parent` must be one of {known}, got {parent!r}. nnU-Net has planned no other.")
    inherited = configurations[parent]
    n_dimensions = len(inherited["patch_size"])
    architecture = deepcopy(inherited["architecture"])
    kwargs = architecture["arch_kwargs"]
    kept = min(N_STAGES, kwargs["n_stages"])
    kwargs["n_stages"] = kept
    kwargs["features_per_stage"] = list(FEATURES[n_dimensions][:kept])
    kwargs["kernel_sizes"], kwargs["strides"] = kwargs["kernel_sizes"][:kept], kwargs["strides"][:kept]
    kwargs["n_conv_per_stage"], kwargs["n_conv_per_stage_decoder"] = [2] * kept, [2] * (kept - 1)
    # The parent's patch, no larger than allowed, and rounded down to what the strides divide.
    divisor = np.prod(kwargs["strides"], axis=0)
    patch = np.maximum(divisor, np.minimum(inherited["patch_size"], MAX_PATCH[n_dimensions]) // divisor * divisor)
    small = deepcopy(plans)
    small["plans_name"] = PLANS_NAME
    small["configurations"][f"{parent}_small"] = {
        "inherits_from": parent,
        "batch_size": BATCH_SIZE[n_dimensions],
        "patch_size": patch.tolist(),
        "architecture": architecture,
    }
    return small
