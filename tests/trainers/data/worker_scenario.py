"""Twenty cases, one of them hard, through nnU-Net's augmenter with real worker processes; prints
the share of batches with it before it is hard, once it is known to be hard, and after it.

Run as a program, with the ways to start processes as its arguments; each has a line.
"""

import multiprocessing
import sys

import numpy as np
from batchgenerators.dataloading.data_loader import DataLoader
from batchgenerators.dataloading.nondet_multi_threaded_augmenter import NonDetMultiThreadedAugmenter

from nnunet_dro.sampling import HardnessTable
from nnunet_dro.trainers.case_columns import CaseColumns
from nnunet_dro.trainers.data.dataloading import DrawsByHardness

N_CASES = 20
HARD = 7
# More batches than the queue and the workers hold: those drawn before its loss was known.
N_BATCHES_IN_FLIGHT = 20


class NamesOnly(DataLoader):
    """A loader whose batches hold nothing but the names of their cases."""

    def generate_train_batch(self):
        return {"keys": self.get_indices()}


class NamesByHardness(DrawsByHardness, NamesOnly):
    pass


def main(start_method: str) -> None:
    multiprocessing.set_start_method(start_method, force=True)
    cases = [f"case_{i}" for i in range(N_CASES)]
    table = HardnessTable(cases, beta=10.0)
    plain = NamesOnly(None, 2, infinite=True)
    plain.indices = cases
    loader = NamesByHardness.taking_over(plain, table)
    augmenter = NonDetMultiThreadedAugmenter(
        loader, None, num_processes=2, num_cached=6, wait_time=0.002
    )
    is_drawn = []
    for iteration in range(900):
        batch = next(augmenter)
        indices = CaseColumns.in_batch(batch).indices.numpy()
        assert list(batch["keys"]) == [cases[i] for i in indices]
        # Nothing is hard in the first third, case 7 in the second, case 3 in the last.
        hardest = (None, HARD, 3)[iteration // 300]
        table.update(indices, np.where(indices == hardest, 1.0, 0.0))
        is_drawn.append(HARD in indices)
    before, hard, after = np.split(np.array(is_drawn), 3)
    known = hard[hard.argmax() + N_BATCHES_IN_FLIGHT :]
    print(before.mean(), known.mean(), after.mean(), table.n_unseen)
    augmenter._finish()


if __name__ == "__main__":
    # Its processes then begin with what each would import.
    multiprocessing.set_forkserver_preload([DrawsByHardness.__module__])
    for start_method in sys.argv[1:]:
        main(start_method)
