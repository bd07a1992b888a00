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


def test_networks_side_by_side_are_trained_as_each_is_alone():
    torch.manual_seed(0)
    first = wide_resnet()
    alone = [wide_resnet() for _ in range(2)]
    for network in alone:
        network.load_state_dict(first.state_dict())
    together = side_by_side(first, 2)
    images = torch.randn(3, 4, 2, 8, 8)
    targets = torch.randint(0, 10, (3, 4, 2))

    def step(network, x, y):
        optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
        # The mean over the images and the sum over the networks.
        loss = torch.nn.functional.cross_entropy(
            network(x).reshape(-1, 10), y.reshape(-1), reduction="sum"
        ) / len(y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    for x, y in zip(images, targets, strict=True):
        step(together, x, y)
        for i, network in enumerate(alone):
            step(network, x[:, i : i + 1], y[:, i : i + 1])
    together.eval()
    logits = together(images[0])

    for i, network in enumerate(alone):
        network.eval()
        torch.testing.assert_close(
            logits[:, 10 * i : 10 * i + 10], network(images[0, :, i : i + 1]), rtol=0, atol=1e-3
        )

    assert not torch.allclose(logits[:, :10], logits[:, 10:], atol=0.1), (
        "they have seen other images"
    )
