"""The exchange between the ranks, with gloo and two processes on the CPU."""

import math
import sys
from functools import partial

import numpy as np
import pytest
import torch
from nnunetv2.training.loss.compound_losses import DC_and_CE_loss
from nnunetv2.training.loss.dice import MemoryEfficientSoftDiceLoss
from torch import distributed as dist
from torch import multiprocessing as mp

from nnunet_dro.losses import ImportanceWeights, PooledHardness
from nnunet_dro.sampling import Draws, HardnessTable
from nnunet_dro.trainers.case_columns import entry_of, rows_of_all_ranks
from nnunet_dro.trainers.options import DROOptions
from nnunet_dro.trainers.weighted_loss import HardnessWeightedLoss, per_case_loss
from tests.nnunet_project import run_module

# Four cases on two ranks. nnU-Net's own batch Dice needs parts of equal size, the exchange does
# not.
PARTS = ([0, 1, 2], [3])
EQUAL_PARTS = ([0, 1], [2, 3])
#: Whether there is one Dice for the batch, whose sums are exchanged, and whether the loss is
#: compiled.
KINDS = ((False, False), (True, False), (True, True))
CASES = torch.tensor([4, 0, 2, 1])
STALE = torch.tensor([0.2, math.nan, 1.9, 0.1])
PROBABILITIES = torch.tensor([0.3, 0.25, 0.1, 0.2])
EXPLORED = torch.zeros(4)
BETAS = torch.ones(4)
#: How the patches of a step are divided between two ranks, some of which are of the same case, and
#: how one process gets them.
DIVISIONS = {
    "foreground last": ([0, 1, 2], [3]),
    "foreground first": ([3], [0, 1, 2]),
    "a process": ([0, 1, 2, 3],),
}
N_STEPS = 12


def data():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4, 3, 6, 6, generator=generator)
    return logits.requires_grad_(), torch.randint(0, 3, (4, 1, 6, 6), generator=generator)


def weighted_loss(batch_dice, ddp, compiled=False, hardness="loss"):
    dice = {"batch_dice": batch_dice, "smooth": 1e-5, "do_bg": False, "ddp": ddp}
    plain = DC_and_CE_loss(dice, {}, dice_class=MemoryEfficientSoftDiceLoss)
    importance = ImportanceWeights()
    per_case = per_case_loss(plain, DROOptions(hardness=hardness, share=0.5))
    loss = HardnessWeightedLoss(plain, per_case, importance=importance, max_cases=3, is_ddp=ddp)
    if compiled:
        loss.per_case.voxel_sums = torch.compile(loss.per_case.voxel_sums, backend="aot_eager")
        loss._weigh = torch.compile(loss._weigh, backend="aot_eager")
    return loss


def train(loss, cases):
    logits, target = data()
    columns = (CASES, STALE, PROBABILITIES, PROBABILITIES, EXPLORED, BETAS)
    with loss.drawn(entry_of(Draws(*(values[cases].numpy() for values in columns)))):
        value = loss(logits[cases], target[cases])
    value.backward()
    found, mean_loss = loss.step()
    table = HardnessTable([f"case_{i}" for i in range(5)], beta=1.0)
    table.update(found.indices, found.losses)
    return {
        "table": table.losses,
        "stale": found.stale_losses.numpy(),
        "indices": found.indices.numpy(),
        "loss": float(value.detach()),
        "mean_loss": mean_loss,
        "n_clipped": int(found.clipped.sum()),
        "gradient": logits.grad.numpy(),
    }


def against_nnunet(loss, cases):
    logits, target = data()
    theirs = loss.plain(logits[cases], target[cases])
    (theirs_gradient,) = torch.autograd.grad(theirs, logits)
    mine = loss.per_case(logits[cases], target[cases]).weighted(torch.ones(len(cases)))
    (my_gradient,) = torch.autograd.grad(mine, logits)
    return {
        "nnunet": float(theirs.detach()),
        "nnunet_gradient": theirs_gradient.numpy(),
        "unweighted": float(mine.detach()),
        "unweighted_gradient": my_gradient.numpy(),
    }


def patches(step):
    """Four patches of six cases; as in nnU-Net, the last one alone has foreground for certain."""
    generator = torch.Generator().manual_seed(step)
    indices = torch.randint(0, 6, (4,), generator=generator)
    logits = torch.randn(4, 3, 6, 6, generator=generator)
    target = torch.zeros(4, 1, 6, 6, dtype=torch.int64)
    target[3, 0, :3] = torch.randint(0, 3, (3, 6), generator=generator)
    return indices, logits, target


def pool(parts, rank):
    """The pooled sums and the stale losses that a rank has after some steps."""
    loss = weighted_loss(False, ddp=len(parts) > 1, hardness="pooled")
    gather = partial(rows_of_all_ranks, max_cases=3) if loss.is_ddp else None
    loss.pooled = PooledHardness(6, memory=0.9, gather=gather)
    table = HardnessTable([f"case_{i}" for i in range(6)], beta=1.0)
    for step in range(N_STEPS):
        indices, logits, target = patches(step)
        part = parts[rank]
        zeros = np.zeros(len(part))
        with loss.drawn(entry_of(Draws(indices[part].numpy(), *[zeros] * 5))):
            loss(logits[part], target[part])
        cases, _ = loss.step()
        table.update(cases.indices, cases.losses)
    return {"sums": loss.pooled.state_dict(), "losses": table.losses}


def _rank(rank, folder):
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2
    )
    torch.set_num_threads(1)
    for batch_dice, compiled in KINDS:
        loss = weighted_loss(batch_dice, ddp=True, compiled=compiled)
        result = train(loss, PARTS[rank]) | against_nnunet(loss, EQUAL_PARTS[rank])
        result["equal_parts"] = train(loss, EQUAL_PARTS[rank])
        torch.save(result, f"{folder}/{rank}_{batch_dice}_{compiled}.pth")
    pools = {name: pool(parts, rank) for name, parts in DIVISIONS.items() if len(parts) > 1}
    torch.save(pools, f"{folder}/pools{rank}.pth")
    # A rank that leaves while the other still exchanges can abort it, or be aborted.
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def folder_of_ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    run_module("tests.trainers.test_ddp", folder)
    return folder


@pytest.fixture(params=KINDS, ids=["per-case Dice", "batch Dice", "batch Dice, compiled"])
def exchanged(request, folder_of_ranks):
    batch_dice, compiled = request.param
    files = [folder_of_ranks / f"{rank}_{batch_dice}_{compiled}.pth" for rank in range(2)]
    ranks = [torch.load(file, weights_only=False) for file in files]
    return ranks, train(weighted_loss(batch_dice, ddp=False), [0, 1, 2, 3]), batch_dice


def test_every_rank_sees_the_losses_of_all(exchanged):
    ranks, single, _ = exchanged
    for rank in ranks:
        np.testing.assert_array_equal(rank["indices"], single["indices"])
        np.testing.assert_array_equal(rank["stale"], single["stale"])
        np.testing.assert_allclose(rank["table"], single["table"], rtol=1e-6)
    np.testing.assert_array_equal(ranks[0]["table"], ranks[1]["table"])
    assert np.isfinite(single["table"]).sum() == 4


def test_every_ranks_loss_with_weights_of_one_is_nnunets(exchanged):
    for rank in exchanged[0]:
        assert rank["unweighted"] == pytest.approx(rank["nnunet"], rel=1e-5)
        np.testing.assert_allclose(
            rank["unweighted_gradient"], rank["nnunet_gradient"], rtol=1e-4, atol=1e-8
        )


def test_weights_reach_the_batch_dice_of_all_ranks(exchanged):
    """The Dice is of the whole weighted batch; the cross-entropy is nnU-Net's mean over the rank's
    own part."""
    ranks, single, batch_dice = exchanged
    mean = np.average([rank["loss"] for rank in ranks], weights=[len(part) for part in PARTS])

    assert mean == pytest.approx(single["loss"], rel=1e-5)
    assert single["loss"] != pytest.approx(single["mean_loss"], rel=1e-2), "the weights matter here"
    if batch_dice:
        assert any(abs(rank["loss"] - rank["mean_loss"]) > 1e-3 for rank in ranks)


def test_ranks_with_equal_parts_step_as_one_process_does(exchanged):
    """The weights are relative to their mean over all ranks; the step's gradient is the mean of the
    ranks'."""
    ranks, single, _ = exchanged
    parts = [rank["equal_parts"] for rank in ranks]

    assert np.mean([part["loss"] for part in parts]) == pytest.approx(single["loss"], rel=1e-5)

    mean = np.mean([part["gradient"] for part in parts], axis=0)
    np.testing.assert_allclose(mean, single["gradient"], rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("division", ["foreground last", "foreground first"])
def test_every_rank_pools_the_patches_of_all(folder_of_ranks, division):
    """So the rank says no more about the hardness of a case than the place in the batch of one
    process, though the foreground is in the patches of one rank."""
    ranks = [
        torch.load(folder_of_ranks / f"pools{rank}.pth", weights_only=False) for rank in (0, 1)
    ]
    one, other = (pools[division] for pools in ranks)
    alone = pool(DIVISIONS["a process"], 0)

    for name in ("sums", "predictions"):
        np.testing.assert_array_equal(one["sums"][name], other["sums"][name])
        np.testing.assert_allclose(one["sums"][name], alone["sums"][name], rtol=1e-5)
    np.testing.assert_array_equal(one["losses"], other["losses"])
    np.testing.assert_allclose(one["losses"], alone["losses"], rtol=1e-5)
    assert np.isfinite(alone["losses"]).all()


if __name__ == "__main__":
    mp.start_processes(_rank, args=sys.argv[1:], nprocs=2, start_method="fork")
