"""A small 2-D U-Net with nnU-Net's blocks: convolution, instance norm, leaky ReLU."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, max_pool2d, pad

#: Features of the resolutions, the finest first.
FEATURES = (8, 16, 32, 64)


def _block(n_in: int, n_out: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for n in (n_in, n_out):
        layers.append(nn.Conv2d(n, n_out, 3, padding=1, bias=False))
        layers.append(nn.InstanceNorm2d(n_out, affine=True))
        layers.append(nn.LeakyReLU(0.01))
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Images (b, 3, height, width) -> logits of two classes (b, 2, height, width)."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(_block(a, b) for a, b in pairwise((3, *FEATURES)))
        self.up = nn.ModuleList(
            _block(coarse + fine, fine) for fine, coarse in reversed([*pairwise(FEATURES)])
        )
        self.head = nn.Conv2d(FEATURES[0], 2, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Height and width must be multiples of 8."""
        skips = [self.down[0](images)]
        for block in self.down[1:]:
            skips.append(block(max_pool2d(skips[-1], 2)))
        features = skips.pop()
        for block in self.up:
            features = block(torch.cat([interpolate(features, scale_factor=2.0), skips.pop()], 1))
        return self.head(features)

    @torch.no_grad()
    def predict(self, image: Tensor) -> Tensor:
        """The foreground of one image, shape (height, width), bool."""
        height, width = image.shape[1:]
        padded = pad(image[None], (0, -width % 8, 0, -height % 8), mode="reflect")
        logits = self(padded)[0, :, :height, :width]
        return logits[1] > logits[0]
