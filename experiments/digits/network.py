"""The network of the experiment: a wide residual network, and several of them side by side."""

import torch
from torch import Tensor, nn


class _Block(nn.Module):
    """Two 3x3 convolutions, each after its normalisation and ReLU, beside a shortcut."""

    def __init__(self, n_in: int, n_out: int, stride: int, groups: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.BatchNorm2d(n_in), nn.ReLU())
        self.rest = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False, groups=groups),
            nn.BatchNorm2d(n_out),
            nn.ReLU(),
            nn.Conv2d(n_out, n_out, 3, padding=1, bias=False, groups=groups),
        )
        self.shortcut: nn.Module | None = None
        if n_in != n_out or stride != 1:
            self.shortcut = nn.Conv2d(n_in, n_out, 1, stride, bias=False, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        activated = self.first(x)
        if self.shortcut is not None:
            # Where the shape changes, the shortcut starts from the activated input.
            x = self.shortcut(activated)
        return self.rest(activated) + x


def wide_resnet() -> nn.Sequential:
    """WRN-16-1 of Zagoruyko and Komodakis 2016, table 1, for one channel.

    Images (b, 1, h, w) -> logits (b, 10).
    """
    network = _layers(1)
    for module in network.modules():
        if isinstance(module, nn.Conv2d) and module.bias is None:
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def side_by_side(network: nn.Sequential, n_networks: int) -> nn.Sequential:
    """Copies of a WRN-16-1 as one network of groups.

    Images (b, n_networks, h, w) -> logits (b, 10 n_networks).

    Each copy has a channel of the input, ten logits, and weights and statistics of its own. So the
    gradient of the sum of their losses is each one's own, and they are trained as if alone, with
    fewer calls.
    """
    together = _layers(n_networks)
    copies = {}
    for name, value in network.state_dict().items():
        # Weights and statistics have their output channels first; the number of batches has none.
        copies[name] = torch.cat([value] * n_networks) if value.dim() else value
    together.load_state_dict(copies)
    return together


def _layers(n_networks: int) -> nn.Sequential:
    n_in = 16 * n_networks
    groups = n_networks
    layers: list[nn.Module] = [nn.Conv2d(n_networks, n_in, 3, padding=1, bias=False, groups=groups)]
    for features, stride in ((16, 1), (32, 2), (64, 2)):
        n_out = features * n_networks
        layers += [_Block(n_in, n_out, stride, groups), _Block(n_out, n_out, 1, groups)]
        n_in = n_out
    layers += [nn.BatchNorm2d(n_in), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
    # A convolution is a linear layer here, and it has groups.
    layers += [nn.Conv2d(n_in, 10 * n_networks, 1, groups=groups), nn.Flatten()]
    return nn.Sequential(*layers)
