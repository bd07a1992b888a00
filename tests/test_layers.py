"""Imports run strictly downward: each layer in a process of its own."""

import subprocess
import sys

import pytest

FORBIDDEN = {
    "nnunet_dro": ("numpy", "torch", "nnunetv2"),
    "nnunet_dro.cli": ("numpy", "torch", "nnunetv2", "pandas", "matplotlib"),
    "nnunet_dro.sampling": ("torch", "nnunetv2", "pandas", "nnunet_dro.losses", "nnunet_dro.trainers"),
    "nnunet_dro.losses": ("nnunetv2", "nnunet_dro.sampling", "nnunet_dro.trainers", "nnunet_dro.evaluation"),
    "nnunet_dro.trainers.registry": ("nnunet_dro.evaluation", "nnunet_dro.demo", "nnunet_dro.cli"),
    "nnunet_dro.trainers.installation": ("torch", "nnunetv2"),
    "nnunet_dro.evaluation": ("torch", "nnunetv2", "nnunet_dro.sampling", "nnunet_dro.losses", "nnunet_dro.trainers"),
}


@pytest.mark.parametrize("layer", FORBIDDEN)
def test_layer_imports_only_what_is_below_it(layer):
    program = f"import sys, {layer}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = set(result.stdout.split())
    assert not imported & set(FORBIDDEN[layer])
