"""The network of the experiment: a wide residual network."""

from torch import Tensor, nn


class _Block(nn.Module):
    """Two 3x3 convolutions, each after its normalisation and ReLU, beside a shortcut."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.BatchNorm2d(n_in), nn.ReLU())
        self.rest = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(n_out),
            nn.ReLU(),
            nn.Conv2d(n_out, n_out, 3, padding=1, bias=False),
        )
        self.shortcut = None if n_in == n_out and stride == 1 else nn.Conv2d(n_in, n_out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        activated = self.first(x)
        # Where the shape changes, the shortcut starts from the activated input.
        return self.rest(activated) + (x if self.shortcut is None else self.shortcut(activated))


def wide_resnet(*, n_blocks: int = 2, width: int = 1) -> nn.Sequential:
    """WRN-(6 n_blocks + 4)-width, by default WRN-16-1: images (b, 1, h, w) -> logits (b, 10).

    Source: Zagoruyko and Komodakis 2016, table 1, for images of one channel.
    """
    layers: list[nn.Module] = [nn.Conv2d(1, 16, 3, padding=1, bias=False)]
    n_in = 16
    for n_out, stride in ((16 * width, 1), (32 * width, 2), (64 * width, 2)):
        for i in range(n_blocks):
            layers.append(_Block(n_in, n_out, stride if i == 0 else 1))
            n_in = n_out
    layers += [nn.BatchNorm2d(n_in), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, 10)]
    network = nn.Sequential(*layers)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network
