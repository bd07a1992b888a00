"""What is trained: the settings, which a run's folder records, and small plans."""

import json
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nnunet_dro.files.output_folder import write_files

PLAIN_TRAINER = "nnUNetTrainerDRO_beta0"  # nnU-Net as it is, with this package's logs.

_SETTINGS_FILE = "demo.json"


@dataclass(frozen=True)
class DemoSettings:
    """The settings of a run of the demo; a folder belongs to one of them."""

    trainer: str  # name of the robust trainer, without the length
    epochs: int  # epochs of both trainings
    iterations: int  # iterations per epoch of both trainings
    seed: int  # random seed of the dataset (nnU-Net's training has none)

    @property
    def trainers(self) -> dict[str, str]:
        """Name of the trainer of each method."""
        from nnunet_dro.trainers.registry import parse_trainer_name  # imports nnU-Net

        names = {}
        for method, name in (("ERM", PLAIN_TRAINER), ("DRO", self.trainer)):
            base, options = parse_trainer_name(name)
            short = replace(options, epochs=self.epochs, iterations=self.iterations)
            names[method] = base + short.suffix()
        return names


def claim(out: Path, settings: DemoSettings) -> None:
    """Reserve ``out`` for these settings, or check that it is reserved for them."""
    recorded = out / _SETTINGS_FILE
    if recorded.is_file():
        _check_recorded(recorded, settings)
        return

    if out.exists() and not out.is_dir():
        raise ValueError(
            f"`out` must be a folder, got the file {str(out)!r}. Choose another with --out."
        )
    if out.is_dir() and any(path.name != recorded.name for path in out.iterdir()):
        raise ValueError(
            f"`out` must be empty or hold an earlier demo, got {str(out)!r} with other files. "
            "Choose another with --out."
        )
    write_files(out, {_SETTINGS_FILE: json.dumps(asdict(settings), indent=2) + "\n"})


def _check_recorded(recorded: Path, settings: DemoSettings) -> None:
    """Check that the recorded settings are these."""
    out = recorded.parent
    now = asdict(settings)
    try:
        before = json.loads(recorded.read_text(encoding="utf-8"))
        differing = next((name for name in now if before[name] != now[name]), None)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(
            f"`out` must hold a readable {_SETTINGS_FILE}, got {str(recorded)!r}. Remove {out}."
        ) from error
    if differing:
        raise ValueError(
            f"`out` must be a new folder or one with the same settings, got {str(out)!r}, which "
            f"holds a run with {differing} {before[differing]!r} instead of {now[differing]!r}. "
            "Choose another with --out."
        )


#: Name of the plans file with the small configuration (nnU-Net's ``-p``).
PLANS_NAME = "nnUNetPlansDemo"

#: Number of stages of the small network; its features, largest patch and batch size by number of
#: dimensions.
N_STAGES = 3
FEATURES = {2: (16, 32, 64), 3: (8, 16, 32)}
MAX_PATCH = {2: 96, 3: 32}
BATCH_SIZE = {2: 4, 3: 2}


def small_plans(plans: dict[str, Any], *, parent: str) -> dict[str, Any]:
    """Add a configuration ``PARENT_small`` to plans.

    It has the first stages of the parent's network, with fewer features, and a smaller patch.
    """
    configurations = plans["configurations"]
    if parent not in configurations:
        raise ValueError(
            f"`parent` must be one of {', '.join(configurations)}, got {parent!r}. "
            "nnU-Net has planned no other."
        )

    inherited = configurations[parent]
    n_dimensions = len(inherited["patch_size"])
    architecture = deepcopy(inherited["architecture"])
    kwargs = architecture["arch_kwargs"]
    n_stages = min(N_STAGES, kwargs["n_stages"])
    kwargs["n_stages"] = n_stages
    kwargs["features_per_stage"] = list(FEATURES[n_dimensions][:n_stages])
    kwargs["kernel_sizes"] = kwargs["kernel_sizes"][:n_stages]
    kwargs["strides"] = kwargs["strides"][:n_stages]
    kwargs["n_conv_per_stage"] = [2] * n_stages
    kwargs["n_conv_per_stage_decoder"] = [2] * (n_stages - 1)

    # The parent's patch, no larger than allowed, and rounded down to what the strides divide.
    divisor = np.prod(kwargs["strides"], axis=0)
    allowed = np.minimum(inherited["patch_size"], MAX_PATCH[n_dimensions])
    patch = np.maximum(divisor, allowed // divisor * divisor)

    small = deepcopy(plans)
    small["plans_name"] = PLANS_NAME
    small["configurations"][f"{parent}_small"] = {
        "inherits_from": parent,
        "batch_size": BATCH_SIZE[n_dimensions],
        "patch_size": patch.tolist(),
        "architecture": architecture,
    }
    return small
