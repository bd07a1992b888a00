"""nnU-Net's data loader, drawing its cases from the hardness table."""

from typing import Any, TypeVar

import numpy as np
import torch
from nnunetv2.training.dataloading.data_loader import nnUNetDataLoader
from numpy.typing import NDArray

from nnunet_dro.sampling import Draws, HardnessTable

Loader = TypeVar("Loader", bound="DrawsByHardness")


class DrawsByHardness:
    """Mixin for a data loader of nnU-Net: cases come from a table, and batches say what they were drawn with.

    A batch has, beside nnU-Net's entries:

    - ``case_indices``: positions in the table, a tensor (b,) int64;
    - ``stale_losses``: the stale losses at the moment of the draw, a tensor (b,) float32, NaN at a first visit. The
      batch may wait in a queue while the table moves on, so the importance weights need these;
    - ``draw_probabilities``: the probabilities of the draws, a tensor (b,) float32.
    """

    table: HardnessTable
    batch_size: int
    _rng: np.random.Generator | None = None
    _draws: Draws

    @classmethod
    def taking_over(cls: type[Loader], loader: Any, table: HardnessTable) -> Loader:
        """A loader that does what ``loader`` was set up for, with the cases of ``table``.

        Args:
            loader: Set up by nnU-Net, of a class this one derives from.
            table: Its cases are the loader's, in the same order.

        Raises:
            TypeError: If ``loader`` does something this class does not know of.
        """
        if not issubclass(cls, type(loader)):
            raise TypeError(
                f"`loader_class` must derive from {type(loader).__name__}, the data loader of this trainer, got "
                f"{cls.__name__}. Write `class MyLoader(DrawsByHardness, {type(loader).__name__})` and set it on your "
                "trainer."
            )
        taken_over = cls.__new__(cls)
        taken_over.__dict__.update(loader.__dict__)
        for name, value in loader.__dict__.items():
            if getattr(value, "__self__", None) is loader:  # nnU-Net keeps a bound method as its choice of oversampling
                setattr(taken_over, name, getattr(taken_over, value.__name__))
        taken_over.table = table
        return taken_over

    def set_thread_id(self, thread_id: int) -> None:
        """Called in each worker: it must not draw what its siblings draw."""
        super().set_thread_id(thread_id)  # type: ignore[misc]
        self._rng = None

    def get_indices(self) -> NDArray[np.str_]:
        """Names of the cases of the next batch."""
        if self._rng is None:
            # nnU-Net seeds numpy's global state in each worker.
            self._rng = np.random.default_rng(np.random.randint(2**32, size=4, dtype=np.uint32))  # noqa: NPY002
        self._draws = self.table.draw(self.batch_size, rng=self._rng)
        cases = self.table.cases
        return np.array([cases[i] for i in self._draws.indices])

    def generate_train_batch(self) -> dict[str, Any]:
        """nnU-Net's batch, and what it was drawn with."""
        batch: dict[str, Any] = super().generate_train_batch()  # type: ignore[misc]
        batch["case_indices"] = torch.from_numpy(self._draws.indices)
        batch["stale_losses"] = torch.from_numpy(self._draws.stale_losses).float()
        batch["draw_probabilities"] = torch.from_numpy(self._draws.probabilities).float()
        return batch


class HardnessDataLoader(DrawsByHardness, nnUNetDataLoader):  # type: ignore[misc]
    """nnU-Net's data loader with the cases of the hardness table."""
