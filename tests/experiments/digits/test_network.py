import pytest
import torch

from experiments.digits.network import wide_resnet


def test_wide_resnet_has_the_published_number_of_parameters():
    def n_parameters(network):
        return sum(parameter.numel() for parameter in network.parameters())

    # Stem, the groups of 16, 32 and 64 channels, last normalisation, classifier: counted by hand.
    assert n_parameters(wide_resnet()) == 144 + 9_344 + 32_992 + 131_520 + 128 + 650
    # Zagoruyko and Komodakis 2016, table 4: WRN-40-4 has 8.9 million, WRN-28-10 has 36.5 million.
    assert n_parameters(wide_resnet(n_blocks=6, width=4)) == pytest.approx(8.9e6, abs=0.05e6)
    assert n_parameters(wide_resnet(n_blocks=4, width=10)) == pytest.approx(36.5e6, abs=0.05e6)


def test_wide_resnet_halves_the_image_twice_and_gives_ten_logits():
    network = wide_resnet()
    shapes = []
    for layer in network:
        layer.register_forward_hook(lambda _, __, output: shapes.append(tuple(output.shape)))
    assert network(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    assert [shape[1:] for shape in shapes[1:7]] == [(16, 28, 28)] * 2 + [(32, 14, 14)] * 2 + [(64, 7, 7)] * 2


def test_block_without_its_convolutions_hands_its_input_on():
    block = wide_resnet()[2]
    torch.nn.init.zeros_(block.rest[-1].weight)
    x = torch.randn(2, 16, 5, 5)
    torch.testing.assert_close(block(x), x, rtol=0, atol=0)
