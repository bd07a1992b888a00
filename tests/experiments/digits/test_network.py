import torch

from experiments.digits.network import side_by_side, wide_resnet


def test_wide_resnet_is_the_published_network():
    def n_parameters(network):
        return sum(parameter.numel() for parameter in network.parameters())

    # Stem, the groups of 16, 32 and 64 channels, last normalisation, classifier: counted by hand.
    assert n_parameters(wide_resnet()) == 144 + 9_344 + 32_992 + 131_520 + 128 + 650
    assert n_parameters(side_by_side(wide_resnet(), 3)) == 3 * n_parameters(wide_resnet())

    network = wide_resnet()
    shapes = []
    for layer in network:
        layer.register_forward_hook(lambda _, __, output: shapes.append(tuple(output.shape)))

    assert network(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    assert [shape[1:] for shape in shapes[1:7]] == [(16, 28, 28)] * 2 + [(32, 14, 14)] * 2 + [
        (64, 7, 7)
    ] * 2

    block = wide_resnet()[2]
    torch.nn.init.zeros_(block.rest[-1].weight)
    x = torch.randn(2, 16, 5, 5)

    torch.testing.assert_close(block(x), x, rtol=0, atol=0)
