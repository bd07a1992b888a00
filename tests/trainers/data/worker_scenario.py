"""Twenty cases, one of them hard, through nnU-Net's augmenter with real worker processes; prints
its share of draws.

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
    counts = np.zeros((3, N_CASES), dtype=int)
    for iteration in range(900):
        batch = next(augmenter)
        indices = CaseColumns.in_batch(batch).indices.numpy()
        assert list(batch["keys"]) == [cases[i] for i in indices]
        # Nothing is hard in the first third, case 7 in the second, case 3 in the last.
        hard = (None, HARD, 3)[iteration // 300]
        table.update(indices, np.where(indices == hard, 1.0, 0.0))
        np.add.at(counts[iteration // 300], indices, 1)
    print(*(counts[:, HARD] / counts.sum(1)), table.n_unseen)
    augmenter._finish()


if __name__ == "__main__":
    # Its processes then begin with what each would import.
    multiprocessing.set_forkserver_preload([DrawsByHardness.__module__])
    for start_method in sys.argv[1:]:
        main(start_method)
