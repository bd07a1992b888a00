import numpy as np
import torch

from nnunet_dro.sampling import HardnessTable
from nnunet_dro.trainers.case_columns import ENTRY, CaseColumns, entry_of


def test_draws_travel_as_one_tensor_of_a_batch():
    table = HardnessTable(["a", "b", "c"], beta=2.0, replace=True)
    table.update([0, 1, 2], [0.5, 0.25, 1.0])
    draws = table.draw(4, rng=np.random.default_rng(0))

    entry = entry_of(draws)

    assert [(values.shape, values.dtype) for values in entry.values()] == [((4, 9), torch.float32)]

    there = CaseColumns.in_batch({"data": None, **entry}, device=torch.device("cpu"))
    np.testing.assert_array_equal(there.indices, draws.indices)
    np.testing.assert_array_equal(there.stale_losses, draws.stale_losses)
    np.testing.assert_allclose(there.probabilities, draws.probabilities, rtol=1e-6)
    assert there.betas.tolist() == [2.0] * 4
    assert [there.indices.dtype, there.stale_losses.dtype] == [torch.int64, torch.float32]
    assert there.losses.isnan().all()
    assert (there.weights == 1).all()
    assert not there.clipped.any()
    torch.testing.assert_close({ENTRY: there.rows()}, entry, equal_nan=True)
