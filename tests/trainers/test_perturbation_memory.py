"""Memory of the ascent against that of nnU-Net's training step, counted on tensors without data."""

import torch
from dynamic_network_architectures.architectures.unet import PlainConvUNet
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nnunet_dro.losses import DiceCELoss, VoxelLoss, cross_entropies
from nnunet_dro.trainers.perturbation import ascend

N_STAGES, N_LEVELS = 6, 5


class PeakMemory(TorchDispatchMode):
    """The most bytes that the tensors of all operations occupied at once."""

    def __init__(self):
        super().__init__()
        self.storages, self.peak = {}, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                reference = StorageWeakRef(leaf.untyped_storage())
                self.storages.setdefault(reference.cdata, (reference, leaf.untyped_storage().nbytes()))
        self.storages = {key: entry for key, entry in self.storages.items() if not entry[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self.storages.values()))
        return result


def peak_of(memory, action):
    memory.peak = 0
    action()
    return memory.peak


def test_the_ascent_needs_at_most_a_fifth_more_than_a_training_step():
    """Two patches of 128^3 voxels in half precision, nnU-Net's network; convolutions' own workspace is not counted."""
    half = torch.autocast("cpu", dtype=torch.bfloat16)
    with FakeTensorMode(), PeakMemory() as memory:
        network = PlainConvUNet(
            1, N_STAGES, [32, 64, 128, 256, 320, 320], nn.Conv3d, 3, [1, 2, 2, 2, 2, 2], 2, 3, 2, conv_bias=True,
            norm_op=nn.InstanceNorm3d, norm_op_kwargs={"affine": True}, nonlin=nn.LeakyReLU,
            nonlin_kwargs={"inplace": True}, deep_supervision=True,
        )  # fmt: skip
        loss = DiceCELoss(
            batch_dice=False, do_bg=False, scale_weights=(8 / 15, 4 / 15, 2 / 15, 1 / 15, 0.0),
            voxel_loss=VoxelLoss(regions=False, smoothing=0.1),
        )  # fmt: skip
        optimizer = torch.optim.SGD(network.parameters(), 1e-2, momentum=0.99, nesterov=True)
        data = torch.zeros(2, 1, 128, 128, 128)
        target = [torch.zeros(2, 1, *[128 // 2**level] * 3) for level in range(N_LEVELS)]

        def step():
            optimizer.zero_grad(set_to_none=True)
            with half:
                value = loss(network(data), target).weighted(torch.ones(2))
            value.backward()
            optimizer.step()

        def climb():
            with half:
                ascend(
                    network, network.decoder.seg_layers[-1], data,
                    lambda output: cross_entropies(loss, output, target), steps=2, eta=0.03, gamma=1e-3,
                )  # fmt: skip

        step()  # makes the optimiser's momentum
        plain, ascent = peak_of(memory, step), peak_of(memory, climb)
    assert plain > 4 * 2**30
    assert ascent < 1.2 * plain
