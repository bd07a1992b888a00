from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from experiments.nuclei.patches import BATCH, draw_patches
from experiments.nuclei.training import new_network
from experiments.nuclei.wrong_labels import case_table
from experiments.nuclei.wrong_labels_data import COMMON, RARE, RIGHT_KIND, spoilt_images
from experiments.nuclei.wrong_labels_training import (
    DORO,
    L2RW,
    PLAIN,
    RANDOM,
    TRAININGS,
    LearningSampler,
    RandomSampler,
    WatchedSampler,
)
from experiments.spoilt_labels.separation import separation_table
from experiments.spoilt_labels.spoiling import KINDS
from nnunet_dro.losses import DiceCELoss
from tests.experiments.made_nuclei import made_images


def made_run(method, iterations=10, seed=0):
    return replace(TRAININGS[method], seed=seed, iterations=iterations)


def test_three_of_ten_images_have_wrong_labels_and_no_rare_or_trusted():
    right = made_images()
    images = spoilt_images(right, right[:3], rng=np.random.default_rng(0))

    assert pd.Series(images.kinds).value_counts()[list(KINDS)].tolist() == [10, 10, 10]
    for image, before, kind, trusted in zip(
        images.train, right, images.kinds, images.trusted, strict=True
    ):
        assert (kind == RIGHT_KIND) == np.array_equal(image.labels, before.labels)
        assert kind == RIGHT_KIND or (image.modality == COMMON and not trusted)
        if kind == "swapped":
            np.testing.assert_array_equal(image.labels, 1 - before.labels)
    assert [image.modality for image in images.trusted_images].count(COMMON) == 5
    assert [image.modality for image in images.trusted_images].count(RARE) == 1
    assert images.test == tuple(right[:3])

    again = spoilt_images(right, right[:3], rng=np.random.default_rng(0))
    assert (again.kinds, again.trusted) == (images.kinds, images.trusted)

    more = spoilt_images(right, right[:3], rng=np.random.default_rng(0), share=0.6, n_trusted=1)
    assert [kind != RIGHT_KIND for kind in more.kinds].count(True) == 60
    assert all(
        before in (kind, RIGHT_KIND) for kind, before in zip(more.kinds, images.kinds, strict=True)
    )
    assert sorted(image.modality for image in more.trusted_images) == sorted([COMMON, RARE])
    assert all(before for now, before in zip(more.trusted, images.trusted, strict=True) if now)

    kept = images.with_right_labels_only()
    assert set(kept.kinds) == {RIGHT_KIND}
    assert len(kept.train) == len(kept.kinds) == len(kept.trusted) == 70
    assert [image.case for image in kept.trusted_images] == [
        image.case for image in images.trusted_images
    ]


def test_doro_draws_uniformly_in_the_first_three_tenths():
    images = made_images({COMMON: 20})
    run = made_run(DORO)

    assert (run.n_warmup, run.moments) == (3, [2, 5, 10])
    assert all(made_run(method).n_warmup == 0 for method in TRAININGS if method != DORO)

    sampler = WatchedSampler(run, images)
    rng = np.random.default_rng(0)
    for iteration in range(10):
        sampler.draw(rng)
        assert sampler.table.warming_up == (iteration < 3)


def test_losses_and_weights_count_after_the_first_third():
    images = made_images({COMMON: 2 * BATCH})
    run = made_run(PLAIN, iterations=3)
    sampler = WatchedSampler(run, images)
    loss = DiceCELoss(batch_dice=False, do_bg=False, hardness="pooled")
    network = new_network(0)
    to_draw = np.random.default_rng(0)
    to_augment = np.random.default_rng(1)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01)
    seen = []

    for _ in range(3):
        draws = sampler.draw(to_draw)
        sampler.step(optimiser, loss, network, draw_patches(images, draws, to_augment), draws)
        seen.append(sampler.table.losses)

    np.testing.assert_allclose(np.array(sampler.mean_losses()), np.nanmean(seen[1:], axis=0))
    assert sampler.times_seen.sum() == 2 * BATCH
    assert {weight for weight in sampler.mean_weights() if weight is not None} == {1.0}


def test_random_weights_have_a_mean_of_one_and_do_not_change_the_draws():
    images = made_images({COMMON: 2 * BATCH})
    plain = WatchedSampler(made_run(PLAIN), images)
    random = RandomSampler(made_run(RANDOM), images)

    drawn, same = (sampler.draw(np.random.default_rng(0)) for sampler in (plain, random))

    np.testing.assert_array_equal(drawn.indices, same.indices)

    weights = random.weights(torch.zeros(BATCH), same)
    assert weights.mean() == pytest.approx(1)
    assert 0 < (weights == 0).sum() < BATCH
    torch.testing.assert_close(
        plain.weights(torch.zeros(BATCH), drawn), torch.ones(BATCH), rtol=0, atol=0
    )


@pytest.fixture
def learning():
    """A sampler that learns weights from three of the images of a batch, with its network, loss,
    images and draws."""
    images = made_images({COMMON: BATCH})
    network = new_network(0)
    loss = DiceCELoss(batch_dice=False, do_bg=False, hardness="pooled")
    sampler = LearningSampler(
        made_run(L2RW, 1), images, trusted=images[:3], network=network, loss=loss
    )
    return sampler, network, loss, images, sampler.draw(np.random.default_rng(0))


def test_learnt_weights_give_the_gradient_of_their_weighted_mean(learning):
    sampler, network, loss, images, draws = learning
    batch = draw_patches(images, draws, np.random.default_rng(1))

    sampler.backward(loss, network, *batch, draws)

    assert sampler.learned.not_at_once is None

    found = [parameter.grad.clone() for parameter in network.parameters()]
    assert sampler.batch_weights.mean() == pytest.approx(1)

    network.zero_grad()
    loss(network(batch[0]), batch[1]).weighted(sampler.batch_weights).backward()

    for parameter, gradient in zip(network.parameters(), found, strict=True):
        torch.testing.assert_close(gradient, parameter.grad, rtol=1e-3, atol=1e-5)


def test_a_batch_that_helps_no_trusted_image_makes_no_step(learning):
    sampler, network, loss, images, draws = learning
    network.requires_grad_(False)
    network.head.bias.requires_grad_(
        True
    )  # this alone is pushed up by nuclei and down by the background
    blank, full = (np.full_like(images[0].labels, value) for value in (0, 1))
    nothing, sampler._trusted = (
        [replace(image, labels=of) for image in images] for of in (blank, full)
    )

    sampler.backward(loss, network, *draw_patches(nothing, draws, np.random.default_rng(1)), draws)

    assert network.head.bias.grad is None
    assert sampler.batch_weights.tolist() == [0.0] * BATCH


def made_cases():
    kinds = [*KINDS, RIGHT_KIND, RIGHT_KIND, RIGHT_KIND]
    rows = [(f"a{i}", COMMON, kind, i == 5, float(-i), 0.1 * i, 2) for i, kind in enumerate(kinds)]
    return [*rows, ("rare", RARE, RIGHT_KIND, False, 5.0, None, 0)]


def test_suspects_have_high_losses_or_low_weights():
    content = {"cases": made_cases()}
    by_loss, by_weight = (
        case_table(f"{method}-seed0", made_run(method), content) for method in (PLAIN, L2RW)
    )

    assert by_loss.sort_values("place")["case"].tolist() == [
        "rare",
        "a0",
        "a1",
        "a2",
        "a3",
        "a4",
        "a5",
    ]
    assert by_weight.sort_values("place")["case"].tolist() == [
        "a0",
        "a1",
        "a2",
        "a3",
        "a4",
        "a5",
        "rare",
    ]
    assert by_weight["share"].sum() == pytest.approx(1)

    (loss, weight, _) = separation_table(pd.concat([by_loss, by_weight])).to_dict("records")
    assert (loss["auc"], weight["auc"]) == (pytest.approx(2 / 3), 1)
    assert loss["auc_rare"] == 1
    assert loss["found_rare"] == 1
