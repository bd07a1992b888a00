"""Counts the peak memory of training steps at nnU-Net's full patch size, on tensors without data.

No GPU is needed.

    python benchmarks/counted_memory.py [--patch 128] [--out FILE]

The network is nnU-Net's U-Net for 3d patches, with two patches per batch, in half precision.
Counted are the bytes of all tensors that exist at once; the workspace of the convolutions is not,
nor what the allocator of a GPU wastes.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from dynamic_network_architectures.architectures.unet import PlainConvUNet
from nnunetv2.training.loss.compound_losses import DC_and_CE_loss
from nnunetv2.training.loss.deep_supervision import DeepSupervisionWrapper
from nnunetv2.training.loss.dice import MemoryEfficientSoftDiceLoss
from rich.console import Console
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nnunet_dro.losses import DiceCELoss, ImportanceWeights, VoxelLoss, cross_entropies
from nnunet_dro.trainers.gils.perturbation import Ascent, ascend

FEATURES = (32, 64, 128, 256, 320, 320)
#: Weights of nnU-Net's deep supervision, from the highest resolution; it leaves the lowest out.
SCALE_WEIGHTS = (8 / 15, 4 / 15, 2 / 15, 1 / 15, 0.0)


class PeakMemory(TorchDispatchMode):
    """Within this context, the most bytes that the tensors of all operations occupy at once."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and count what it made."""
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                reference = StorageWeakRef(leaf.untyped_storage())
                self.storages.setdefault(
                    reference.cdata, (reference, leaf.untyped_storage().nbytes())
                )
        self.storages = {
            key: entry for key, entry in self.storages.items() if not entry[0].expired()
        }
        self.peak = max(self.peak, sum(size for _, size in self.storages.values()))
        return result

    def of(self, action: Callable[[], None]) -> int:
        """The peak of an action, in bytes."""
        self.peak = 0
        action()
        return self.peak


def count(patch: int = 128) -> dict[str, int]:
    """Peak bytes of a step, by loss: nnU-Net's own ("plain"), our trainers', GILS's ascent."""
    half = torch.autocast("cpu", dtype=torch.bfloat16)
    with FakeTensorMode(), PeakMemory() as memory:
        network = PlainConvUNet(
            1, len(FEATURES), FEATURES, nn.Conv3d, 3, [1, 2, 2, 2, 2, 2], 2, 3, 2, conv_bias=True,
            norm_op=nn.InstanceNorm3d, norm_op_kwargs={"affine": True}, nonlin=nn.LeakyReLU,
            nonlin_kwargs={"inplace": True}, deep_supervision=True,
        )  # fmt: skip
        optimizer = torch.optim.SGD(network.parameters(), 1e-2, momentum=0.99, nesterov=True)
        data = torch.zeros(2, 1, *[patch] * 3)
        target = [
            torch.zeros(2, 1, *[patch // 2**level] * 3) for level in range(len(SCALE_WEIGHTS))
        ]

        def step(loss: Callable[[list[Tensor], list[Tensor]], Tensor]) -> None:
            optimizer.zero_grad(set_to_none=True)
            with half:
                value = loss(network(data), target)
            value.backward()
            optimizer.step()

        def climb(loss: DiceCELoss) -> None:
            with half:
                ascend(
                    network, network.decoder.seg_layers[-1], data,
                    lambda output: cross_entropies(loss, output, target),
                    Ascent(steps=2, eta=0.03, gamma=1e-3),
                )  # fmt: skip

        step(_nnunets_loss())  # makes the optimiser's momentum
        return {
            "plain": memory.of(lambda: step(_nnunets_loss())),
            "DRO": memory.of(lambda: step(_weighted(_loss()))),
            "DRO_hardPresent": memory.of(lambda: step(_weighted(_loss(hardness="present")))),
            "DRO_poly1": memory.of(lambda: step(_weighted(_loss(alpha=1.0)))),
            "LS": memory.of(lambda: step(_weighted(_loss(smoothing=0.1)))),
            "GILS, ascent": memory.of(lambda: climb(_loss(smoothing=0.1))),
        }


def _nnunets_loss() -> DeepSupervisionWrapper:
    dice = {"batch_dice": False, "smooth": 1e-5, "do_bg": False, "ddp": False}
    return DeepSupervisionWrapper(
        DC_and_CE_loss(dice, {}, dice_class=MemoryEfficientSoftDiceLoss), SCALE_WEIGHTS
    )


def _weighted(loss: DiceCELoss) -> Callable[[list[Tensor], list[Tensor]], Tensor]:
    def of_batch(output: list[Tensor], target: list[Tensor]) -> Tensor:
        cases = loss(output, target)
        weights_of_one = torch.ones(2)
        weights, _ = ImportanceWeights()(
            cases.hardness,
            0 * weights_of_one,
            shares=0.1 * weights_of_one,
            explored=0 * weights_of_one,
            betas=weights_of_one,
        )
        return cases.weighted(weights)

    return of_batch


def _loss(*, hardness: Any = "loss", **voxel_settings: Any) -> DiceCELoss:
    return DiceCELoss(
        batch_dice=False,
        do_bg=False,
        scale_weights=SCALE_WEIGHTS,
        hardness=hardness,
        voxel_loss=VoxelLoss(regions=False, **voxel_settings),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--patch", type=int, default=128, help="Edge of the patches in voxels, a multiple of 32."
    )
    parser.add_argument("--out", type=Path, help="JSON file to write.")
    arguments = parser.parse_args()
    peaks = count(arguments.patch)
    for name, peak in peaks.items():
        Console().print(f"{name:16} {peak / 2**20:8.0f} MiB, {peak / peaks['plain']:.3f} of plain")
    if arguments.out is not None:
        arguments.out.write_text(
            json.dumps({"patch": arguments.patch, "bytes": peaks}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
