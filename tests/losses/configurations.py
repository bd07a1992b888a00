"""Every configuration that nnU-Net's loss has, with a batch for it."""

import itertools
from dataclasses import dataclass

import pytest
import torch
from nnunetv2.training.loss.compound_losses import DC_and_BCE_loss, DC_and_CE_loss, DC_and_topk_loss
from nnunetv2.training.loss.deep_supervision import DeepSupervisionWrapper
from nnunetv2.training.loss.dice import MemoryEfficientSoftDiceLoss, SoftDiceLoss

N_CASES = 3
N_CLASSES = 4
WEIGHTS = torch.tensor([0.3, 2.0, 5.0])


@dataclass(frozen=True)
class Configuration:
    dimensions: int = 2
    regions: bool = False
    batch_dice: bool = False
    ignore: bool = False
    deep_supervision: bool = False

    def loss(self):
        """The loss as nnU-Net builds it."""
        dice = {"batch_dice": self.batch_dice, "smooth": 1e-5, "do_bg": self.regions, "ddp": False}
        kind = {"dice_class": MemoryEfficientSoftDiceLoss}
        if self.regions:
            loss = DC_and_BCE_loss({}, dice, use_ignore_label=self.ignore, **kind)
        else:
            loss = DC_and_CE_loss(dice, {}, ignore_label=N_CLASSES if self.ignore else None, **kind)
        return supervised(loss) if self.deep_supervision else loss

    def batch(self):
        """Logits and targets; the last case lacks the last class and, where voxels are ignored,
        annotated ones."""
        generator = torch.Generator().manual_seed(0)
        outputs = []
        targets = []
        for size in (8, 4, 2) if self.deep_supervision else (8,):
            shape = [size] * self.dimensions
            outputs.append(
                (2 * torch.randn(N_CASES, N_CLASSES, *shape, generator=generator)).requires_grad_()
            )
            if self.regions:
                target = (
                    torch.rand(N_CASES, N_CLASSES + self.ignore, *shape, generator=generator) < 0.3
                )
                target[-1, N_CLASSES - 1] = False
                if self.ignore:
                    target[-1, -1] = True
            else:
                labels = (N_CASES, 1, *shape)
                target = torch.randint(0, N_CLASSES + self.ignore, labels, generator=generator).to(
                    torch.int16
                )
                target[-1][target[-1] == N_CLASSES - 1] = 0
                if self.ignore:
                    target[-1] = N_CLASSES
            targets.append(target)
        return (outputs, targets) if self.deep_supervision else (outputs[0], targets[0])


CONFIGURATIONS = [
    Configuration(*values) for values in itertools.product((2, 3), *[(False, True)] * 4)
]


def configurations(**fixed):
    """Parametrize a test by the configurations that have these values."""
    found = [
        one
        for one in CONFIGURATIONS
        if all(getattr(one, name) == value for name, value in fixed.items())
    ]
    return pytest.mark.parametrize("made", found, ids=str)


def supervised(loss):
    """Deep supervision over three resolutions, of which the last does not count."""
    return DeepSupervisionWrapper(loss, (0.6, 0.4, 0.0))


def leaves(outputs):
    return outputs if isinstance(outputs, list) else [outputs]


def select(values, cases):
    return [value[cases] for value in values] if isinstance(values, list) else values[cases]


def alone(loss, outputs, targets):
    """A loss of a batch on each of its cases alone, (b,)."""
    losses = [loss(select(outputs, [i]), select(targets, [i])) for i in range(N_CASES)]
    return torch.stack([torch.as_tensor(value) for value in losses]).detach()


def gradients(value, outputs):
    """By the outputs of the resolutions that count."""
    return torch.autograd.grad(value, leaves(outputs)[:2], retain_graph=True)


def dice_settings():
    return {"batch_dice": False, "smooth": 1e-5, "do_bg": False, "ddp": False}


def _other(cross_entropy, dice_class=MemoryEfficientSoftDiceLoss):
    return lambda: DC_and_CE_loss(dice_settings(), cross_entropy, dice_class=dice_class)


UNKNOWN_LOSSES = {
    "other Dice": _other({}, SoftDiceLoss),
    "top-k": lambda: DC_and_topk_loss(dice_settings(), {"k": 10}),
    "class weights": _other({"weight": torch.arange(1.0, 5.0)}),
    "label smoothing": _other({"label_smoothing": 0.1}),
}
