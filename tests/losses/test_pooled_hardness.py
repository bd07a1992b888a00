import math

import numpy as np
import pytest
import torch

from nnunet_dro.losses import DiceCELoss, PooledHardness


def batch(n=2, size=8, classes=3, seed=0, labels=None):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, classes, size, size, generator=generator)
    target = (
        torch.randint(0, classes, (n, 1, size, size), generator=generator)
        if labels is None
        else labels
    )
    return logits, target


def loss_of(**settings):
    defaults = {"batch_dice": False, "do_bg": False, "smooth": 1e-5, "hardness": "pooled"}
    return DiceCELoss(**(defaults | settings))


def labels_with(*voxels, size=16):
    """A row of voxels, of background but for some labels at their places."""
    labels = torch.zeros(1, 1, size, dtype=torch.int64)
    for place, label in voxels:
        labels[..., place] = label
    return labels


def sees(labels, classes=2, logit=8.0):
    """Logits of a network that is sure of these labels."""
    return logit * torch.nn.functional.one_hot(labels[:, 0], classes).movedim(-1, 1).float()


def test_without_memory_it_is_the_loss_of_a_patch_that_has_all_classes():
    loss = loss_of()
    cases = loss(*batch())

    pooled = PooledHardness(5, memory=0.0)

    for _ in range(2):
        torch.testing.assert_close(pooled(torch.tensor([3, 1]), cases), cases.hardness)

    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 2, 6, 6, generator=generator)
    target = torch.randint(0, 2, (2, 3, 6, 6), generator=generator)
    loss = loss_of(regions=True, do_bg=True, ignore_label=1)
    cases = loss(logits, target)

    torch.testing.assert_close(
        PooledHardness(2, memory=0.5)(torch.arange(2), cases), cases.hardness
    )


@pytest.mark.parametrize("batch_dice", [False, True])
def test_the_patches_of_a_case_count_as_one_image(batch_dice):
    """With a memory near 1, two patches have the Dice and cross-entropy of both side by side."""
    loss = loss_of(batch_dice=batch_dice)
    one = batch(1, seed=1)
    other = batch(1, seed=2)
    pooled = PooledHardness(1, memory=1 - 1e-9)
    pooled(torch.tensor([0]), loss(*one))

    both = loss(*(torch.cat(pair, -1) for pair in zip(one, other, strict=True)))

    torch.testing.assert_close(
        pooled(torch.tensor([0]), loss(*other)), both.hardness, rtol=1e-5, atol=1e-6
    )


def test_the_past_fades():
    loss = loss_of()
    pooled = PooledHardness(1, memory=0.5)
    pooled(torch.tensor([0]), loss(*batch(1, seed=1)))
    last = loss(*batch(1, seed=2))

    for _ in range(30):
        hardness = pooled(torch.tensor([0]), last)

    torch.testing.assert_close(hardness, last.hardness)


def test_an_empty_patch_leaves_the_dice_of_the_case_alone():
    """The soft Dice of an empty patch is near 0 however good the network is; pooled, the patch
    changes nothing."""
    full = torch.zeros(1, 1, 8, 8, dtype=torch.int64)
    full[..., :4] = 1
    empty = torch.zeros_like(full)
    right = [
        8.0 * torch.nn.functional.one_hot(target[:, 0], 2).movedim(-1, 1)
        for target in (full, empty)
    ]
    loss = loss_of()

    pooled = PooledHardness(1, memory=0.9)

    assert pooled(torch.tensor([0]), loss(right[0], full)).item() == pytest.approx(-1, abs=2e-3)
    assert loss(right[1], empty).hardness.item() > -0.9
    assert pooled(torch.tensor([0]), loss(right[1], empty)).item() == pytest.approx(-1, abs=2e-3)


def test_a_case_without_any_class_is_as_hard_as_its_cross_entropy():
    empty = torch.zeros(1, 1, 8, 8, dtype=torch.int64)
    logits, _ = batch(1)
    logits[:, 0] += 9  # nothing is predicted
    cases = loss_of()(logits, empty)

    hardness = PooledHardness(1, memory=0.9)(torch.tensor([0]), cases)

    torch.testing.assert_close(hardness, cases.cross_entropy[0] / 64 - 1)

    labels = torch.zeros(1, 1, 8, 8, dtype=torch.int64)
    labels[..., :3] = 1
    logits[:, 1] += 9
    cases = loss_of()(logits, labels)
    (dice,) = (2 * cases.intersection[0, 0, :1] + 1e-5) / (
        cases.predicted + cases.reference + 1e-5
    )[0, 0, :1]
    hardness = PooledHardness(1, memory=0.9)(torch.tensor([0]), cases)

    torch.testing.assert_close(hardness, cases.cross_entropy[0] / 64 - dice)


@pytest.mark.parametrize("has_foreground", [False, True])
def test_a_case_with_invented_voxels_is_harder(has_foreground):
    """A lesion of 4 voxels that nobody annotated is a Dice of 0, or of 2 4 / (4 + 8) beside another
    of 4 voxels."""
    reference = labels_with()
    dice = 0
    if has_foreground:
        reference = labels_with((slice(0, 4), 1))
        dice = 2 / 3
    invented = reference.clone()
    invented[..., 8:12] = 1
    target = reference.expand(2, 1, 16)

    cases = loss_of()(torch.cat([sees(reference, logit=50), sees(invented, logit=50)]), target)
    good, bad = PooledHardness(2, memory=0.9)(torch.arange(2), cases).tolist()

    assert good == pytest.approx(-1, abs=1e-5)
    assert bad == pytest.approx(4 * 50 / 16 - dice, abs=1e-5), "4 of 16 voxels have a CE of 50"


def test_an_invented_class_counts_with_a_dice_of_0_beside_the_others():
    reference = labels_with((slice(0, 4), 1))
    invented = labels_with((slice(0, 4), 1), (12, 2))
    cases = loss_of()(sees(invented, classes=3, logit=50), reference)

    hardness = PooledHardness(1, memory=0.9)(torch.tensor([0]), cases).item()

    assert hardness == pytest.approx(50 / 16 - 1 / 2, abs=1e-5)


@pytest.mark.parametrize(("memory", "n_patches"), [(0.9, 10), (0.5, 2), (0.0, 1)])
def test_an_invented_class_is_forgotten_after_as_many_patches(memory, n_patches):
    """It counts in as many patches as the memory spans, 1 / (1 - m), however often it was invented
    before them."""
    empty = labels_with()
    loss = loss_of(weight_ce=0.0)
    wrong = loss(sees(labels_with((3, 1)), logit=50), empty)
    right = loss(sees(empty, logit=50), empty)
    pooled = PooledHardness(1, memory=memory)
    for _ in range(20):
        hardness = [pooled(torch.tensor([0]), wrong).item()]

    hardness += [pooled(torch.tensor([0]), right).item() for _ in range(12)]

    assert np.round(hardness, 4).tolist() == [0] * n_patches + [-1] * (13 - n_patches)


@pytest.mark.parametrize(("n_voxels", "n_visits"), [(1, 7), (10, 29)])
def test_a_class_that_was_seen_once_fades_with_its_voxels(n_voxels, n_visits):
    """Of voxels that the network missed, half a voxel is left after so many visits with a memory of
    0.9."""
    empty = labels_with()
    loss = loss_of(weight_ce=0.0)
    pooled = PooledHardness(1, memory=0.9)
    missed = loss(sees(empty, logit=50), labels_with((slice(0, n_voxels), 1)))
    hardness = [pooled(torch.tensor([0]), missed).item()]

    right = loss(sees(empty, logit=50), empty)
    hardness += [pooled(torch.tensor([0]), right).item() for _ in range(40)]

    assert np.round(hardness, 2).tolist() == [0] * n_visits + [-1] * (41 - n_visits)


def test_regions_and_the_background_if_it_counts():
    """A region is predicted above a probability of 0.5."""
    nothing = torch.zeros(1, 2, 16)
    logits = torch.full((1, 2, 16), -50.0)
    logits[0, 1, 3] = 0.1
    loss = loss_of(regions=True, do_bg=True, weight_ce=0.0)
    pooled = PooledHardness(1, memory=0.0)

    assert pooled(torch.tensor([0]), loss(logits, nothing)).item() == pytest.approx(0, abs=1e-4)
    logits[0, 1, 3] = -0.1
    assert pooled(torch.tensor([0]), loss(logits, nothing)).item() == pytest.approx(-1)

    background = loss_of(do_bg=True, weight_ce=0.0)(sees(labels_with(), logit=50), labels_with())
    assert pooled(torch.tensor([0]), background).item() == pytest.approx(-1)


@pytest.mark.parametrize("regions", [False, True])
def test_what_is_invented_in_voxels_to_ignore_does_not_count(regions):
    invented = labels_with((3, 1))
    if regions:
        logits = 100.0 * invented - 50
        target = torch.cat([torch.zeros(1, 1, 16), invented], 1)
        loss = loss_of(regions=True, do_bg=True, ignore_label=1, weight_ce=0.0)
    else:
        logits = sees(invented, logit=50)
        target = 2 * invented
        loss = loss_of(ignore_label=2, weight_ce=0.0)

    hardness = PooledHardness(1, memory=0.9)(torch.tensor([0]), loss(logits, target))

    assert hardness.item() == pytest.approx(-1)


def test_a_loss_of_another_hardness_is_refused():
    cases = loss_of(hardness="loss")(*batch(1))
    with pytest.raises(ValueError, match="with `hardness` 'pooled', got 'loss'"):
        PooledHardness(1, memory=0.9)(torch.tensor([0]), cases)


def test_autocast_and_compilation_change_nothing():
    logits, target = batch(4, seed=3)
    logits = logits.half()
    loss = loss_of()
    expected = PooledHardness(4, memory=0.9)(torch.arange(4), loss(logits.float(), target))

    loss.voxel_sums = torch.compile(loss.voxel_sums, backend="aot_eager")
    with torch.autocast("cpu", torch.bfloat16):
        hardness = PooledHardness(4, memory=0.9)(torch.arange(4), loss(logits, target))

    torch.testing.assert_close(hardness, expected, rtol=1e-3, atol=1e-3)


def test_a_case_that_comes_twice_in_a_batch_counts_with_both_patches():
    loss = loss_of()
    pooled = PooledHardness(1, memory=0.5)
    logits, target = batch(2)

    both = loss(torch.cat([*logits.split(1)], -1), torch.cat([*target.split(1)], -1)).hardness

    torch.testing.assert_close(pooled(torch.tensor([0, 0]), loss(logits, target)), both.expand(2))


def test_a_patch_that_is_not_finite_is_refused_and_forgotten():
    loss = loss_of()
    pooled = PooledHardness(2, memory=0.9)
    logits, target = batch(2)
    before = pooled(torch.arange(2), loss(logits, target))
    spoilt = logits.clone()
    spoilt[0, 0, 0, 0] = math.nan

    hardness = pooled(torch.arange(2), loss(spoilt, target))

    assert math.isnan(hardness[0])
    torch.testing.assert_close(hardness[1], before[1])
    torch.testing.assert_close(pooled(torch.arange(2), loss(logits, target))[0], before[0])


def test_no_gradient_and_full_resolution_only():
    loss = loss_of(scale_weights=(2 / 3, 1 / 3))
    logits, target = batch(2)
    logits.requires_grad_()
    coarse = (logits[..., ::2, ::2], target[..., ::2, ::2])

    hardness = PooledHardness(2, memory=0.9)(
        torch.arange(2), loss([logits, coarse[0]], [target, coarse[1]])
    )

    assert not hardness.requires_grad
    torch.testing.assert_close(hardness, loss_of()(logits, target).hardness)


def test_it_is_restored_by_the_positions_of_the_cases():
    loss = loss_of()
    pooled = PooledHardness(3, memory=0.9)
    pooled(torch.arange(3), loss(*batch(3, seed=1)))
    again = PooledHardness(2, memory=0.9)
    again.load_state_dict(pooled.state_dict(), np.array([0]), np.array([2]))
    cases = loss(*batch(2, seed=2))

    hardness = again(torch.arange(2), cases)

    torch.testing.assert_close(hardness[:1], pooled(torch.tensor([2, 0]), cases)[:1])
    torch.testing.assert_close(hardness[1:], cases.hardness[1:])

    again.load_state_dict(PooledHardness(2, memory=0.9).state_dict(), np.arange(2), np.arange(2))
    torch.testing.assert_close(again(torch.arange(2), cases), cases.hardness)


def test_the_state_of_version_0_3_has_no_predictions_yet():
    """Its sums go on, and what is invented counts as soon as it is predicted again."""
    empty = labels_with()
    loss = loss_of(weight_ce=0.0)
    wrong = loss(sees(labels_with((3, 1)), logit=50), empty)
    right = loss(sees(empty, logit=50), empty)
    pooled = PooledHardness(1, memory=0.9)
    pooled(torch.tensor([0]), wrong)
    state = pooled.state_dict()
    del state["predictions"]

    again = PooledHardness(1, memory=0.9)
    again.load_state_dict(state, np.array([0]), np.array([0]))

    assert state["sums"].shape == (1, 3 + 2)
    assert again(torch.tensor([0]), right).item() == pytest.approx(-1)
    assert again(torch.tensor([0]), wrong).item() == pytest.approx(0, abs=1e-4)
    assert again.state_dict()["sums"][0, 1] == pytest.approx(1 + 0.9**2)


def test_gathered_rows_are_pooled_as_one_batch_and_fillers_left_out():
    """Each of two processes sends three rows, of one patch and of two."""
    sent = {}

    def gather_of(name, other):
        def gather(rows):
            sent[name] = torch.cat([rows, torch.full((3 - len(rows), rows.shape[1]), -1.0)])
            return torch.cat([sent[name], *[sent[key] for key in sent if key == other]])

        return gather

    loss = loss_of()
    logits, target = batch(3)
    indices = torch.tensor([2, 0, 2])
    alone = PooledHardness(4, memory=0.9)
    first = PooledHardness(4, memory=0.9, gather=gather_of("first", "second"))
    second = PooledHardness(4, memory=0.9, gather=gather_of("second", "none"))

    for _ in range(2):
        second(indices[1:], loss(logits[1:], target[1:]))
        hardness = first(indices[:1], loss(logits[:1], target[:1]))

        expected = alone(indices, loss(logits, target))
        torch.testing.assert_close(hardness, expected[:1])

    assert not first._sums[4].any()
    torch.testing.assert_close(first._sums, alone._sums)


@pytest.mark.parametrize("memory", [-0.1, 1.0, math.nan])
def test_a_memory_out_of_range_is_refused(memory):
    with pytest.raises(ValueError, match=r"`memory` must be a number in \[0, 1\)"):
        PooledHardness(1, memory=memory)
