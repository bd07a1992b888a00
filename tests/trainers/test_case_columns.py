import math

import numpy as np
import torch

from nnunet_dro.sampling import HardnessTable
from nnunet_dro.trainers.case_columns import CaseColumns, DrawColumns, Step


def columns():
    return CaseColumns(
        indices=torch.tensor([7, 0]),
        losses=torch.tensor([0.25, -1.5]),
        stale_losses=torch.tensor([math.nan, 2.0]),
        clipped=torch.tensor([False, True]),
        weights=torch.tensor([1.0, 0.5]),
    )


def test_draws_travel_as_one_tensor_of_a_batch():
    table = HardnessTable(["a", "b", "c"], beta=2.0, replace=True)
    table.update([0, 1, 2], [0.5, 0.25, 1.0])
    draws = table.draw(4, rng=np.random.default_rng(0))
    entries = DrawColumns.of(draws).entries()
    assert [values.shape for values in entries.values()] == [(4, 6)]
    there = DrawColumns.in_batch({"data": None, **entries}, device=torch.device("cpu"))
    np.testing.assert_array_equal(there.indices, draws.indices)
    np.testing.assert_array_equal(there.stale_losses, draws.stale_losses)
    np.testing.assert_allclose(there.probabilities, draws.probabilities, rtol=1e-6)
    assert there.betas.tolist() == [2.0] * 4
    assert [there.indices.dtype, there.stale_losses.dtype] == [torch.int64, torch.float32]


def test_what_is_packed_is_unpacked():
    rows = columns().packed()
    assert (rows.shape, rows.dtype) == ((2, 5), torch.float32)
    unpacked = CaseColumns.unpacked(rows.flatten().numpy())
    assert {name: values.dtype for name, values in unpacked.items()} == dict.fromkeys(unpacked, np.float64)
    for name, values in unpacked.items():
        np.testing.assert_array_equal(values, getattr(columns(), name).numpy())


def test_rows_that_fill_up_a_ranks_part_are_no_cases():
    """Ranks have parts of different size; the shorter one is filled up with rows of -1."""
    rows = torch.cat([columns().packed(), torch.full((1, 5), -1.0), columns().packed()])
    step = Step.of(rows.numpy(), mean_loss=0.75)
    assert step.indices.tolist() == [7, 0, 7, 0]
    assert step.losses.tolist() == [0.25, -1.5] * 2
    assert step.weights.tolist() == [1.0, 0.5] * 2
    assert (step.mean_loss, step.n_clipped, step.mean_weight) == (0.75, 2, 0.75)
