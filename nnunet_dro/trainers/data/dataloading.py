"""nnU-Net's data loader, drawing its cases from the hardness table."""

import time
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from nnunetv2.training.dataloading.data_loader import nnUNetDataLoader
from numpy.typing import NDArray

from nnunet_dro.sampling import Draws, HardnessTable
from nnunet_dro.trainers.case_columns import DrawColumns
from nnunet_dro.trainers.data.subvolumes import Subvolumes, locations_inside

Loader = TypeVar("Loader", bound="DrawsByHardness")


class DrawsByHardness:
    """Mixin for a data loader of nnU-Net: cases come from a table, and batches say what they were drawn with.

    A batch has the entries of `DrawColumns` beside nnU-Net's own.

    With sub-volumes the table's items are cells, and a patch's centre lies in the cell that was drawn.
    """

    table: HardnessTable
    subvolumes: Subvolumes | None = None
    batch_size: int
    patch_size: Sequence[int]
    need_to_pad: NDArray[np.int64]
    has_ignore: bool
    annotated_classes_key: tuple[int, ...]
    _rng: np.random.Generator | None = None
    _draws: Draws
    _n_placed: int = 0

    @classmethod
    def taking_over(
        cls: type[Loader], loader: Any, table: HardnessTable, subvolumes: Subvolumes | None = None
    ) -> Loader:
        """A loader that does what ``loader`` was set up for, with the cases of ``table``.

        Args:
            loader: Set up by nnU-Net, of a class this one derives from.
            table: Its cases are the loader's, in the same order; with ``subvolumes`` they are `Subvolumes.names`.
            subvolumes: Cells of the loader's cases; None to draw whole cases.

        Raises:
            TypeError: If ``loader`` does something this class does not know of.
            ValueError: If the table's items are not the sub-volumes.
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
        if subvolumes is not None and list(table.cases) != subvolumes.names:
            raise ValueError(
                f"`table` must have the {len(subvolumes)} sub-volumes as its cases, in their order, got {len(table)} "
                "others. Make it with HardnessTable(subvolumes.names, ...)."
            )
        taken_over.table = table
        taken_over.subvolumes = subvolumes
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
        self._n_placed = 0
        if self.subvolumes is None:
            cases = self.table.cases
            return np.array([cases[i] for i in self._draws.indices])
        cases = self.subvolumes.cases
        return np.array([cases[i] for i in self.subvolumes.case_of[self._draws.indices]])

    # What follows `class_locations` is nnU-Net's, or that of a loader with a signature of its own.
    def get_bbox(
        self, data_shape: Sequence[int], force_fg: bool, class_locations: Any, *options: Any, **named: Any
    ) -> tuple[list[int], list[int]]:
        """nnU-Net's choice of a patch, with the centre in the sub-volume that was drawn.

        nnU-Net sees only the locations inside the sub-volume. Where it would crop at random, also for want of such
        locations, the centre is uniform over the voxels of the sub-volume that its random crops can be centred on; if
        there are none (near the border, of a small volume), it is the nearest such voxel.

        Args:
            data_shape: Voxels along each axis.
            force_fg: Whether the centre must be foreground, if there is any.
            class_locations: Sampled voxels per class or region, arrays (m, 4), channel first.
            *options: As in nnU-Net.
            **named: As in nnU-Net.

        Returns:
            First voxel of the patch and the one past the last along each axis; they may lie outside of the volume.

        Raises:
            RuntimeError: If it is called more often than once per sample.
        """
        choose = super().get_bbox  # type: ignore[misc]
        if self.subvolumes is None:
            return choose(data_shape, force_fg, class_locations, *options, **named)
        if self._n_placed == len(self._draws.indices):
            raise self._not_once_per_sample("more than")
        start, stop = self.subvolumes.bounds(self._draws.indices[self._n_placed], data_shape)
        self._n_placed += 1
        if force_fg or self.has_ignore:
            inside = locations_inside(class_locations, start, stop)
            if any(map(len, inside.values())) if force_fg else len(inside.get(self.annotated_classes_key, ())):
                return choose(data_shape, force_fg, inside, *options, **named)
        # nnU-Net's random crop takes no bounds, so its centre is drawn here; told that this is where every class is,
        # nnU-Net puts the patch around it.
        location = np.array([[0, *self._draw_centre(start, stop, np.asarray(data_shape))]])
        return choose(data_shape, True, dict.fromkeys(class_locations or (0,), location), *options, **named)

    def _draw_centre(
        self, start: NDArray[np.int64], stop: NDArray[np.int64], shape: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        # nnU-Net computes these bounds inside its get_bbox, and keeps a patch that it centres on a voxel from the lower
        # one alone: a centre beyond the upper would be mostly padding where its random crops are not.
        patch = np.asarray(self.patch_size)
        lowest_corner = -np.maximum(self.need_to_pad, patch - shape) // 2
        lowest = lowest_corner + patch // 2
        highest = shape - patch - lowest_corner + patch // 2
        rng: np.random.Generator = self._rng  # type: ignore[assignment]
        return rng.integers(np.clip(start, lowest, highest), np.clip(stop - 1, lowest, highest), endpoint=True)

    def _not_once_per_sample(self, how_often: str) -> RuntimeError:
        return RuntimeError(
            f"`{type(self).__name__}.generate_train_batch` must call get_bbox once per sample, in the order of "
            f"get_indices, called it {how_often} {len(self._draws.indices)} times for as many samples. Sub-volumes "
            "need this to know which one a patch belongs to; train without them, or change the loader."
        )

    def generate_train_batch(self) -> dict[str, Any]:
        """nnU-Net's batch, and what it was drawn with."""
        batch: dict[str, Any] = super().generate_train_batch()  # type: ignore[misc]
        if self.subvolumes is not None and self._n_placed != len(self._draws.indices):
            raise self._not_once_per_sample("fewer than")
        batch.update(DrawColumns.of(self._draws).entries())
        return batch


class HardnessDataLoader(DrawsByHardness, nnUNetDataLoader):  # type: ignore[misc]
    """nnU-Net's data loader with the cases of the hardness table."""


def loader_of(augmenter: Any) -> Any:
    """The data loader that an augmenter of batchgenerators, with or without workers, takes its batches from."""
    return getattr(augmenter, _holder_of(augmenter))


def put_loader(augmenter: Any, loader: Any) -> None:
    """Let an augmenter take its batches from another loader; workers start anew, and their batches are dropped."""
    setattr(augmenter, _holder_of(augmenter), loader)
    if hasattr(augmenter, "restart"):
        restart(augmenter)


def _holder_of(augmenter: Any) -> str:
    return "generator" if hasattr(augmenter, "generator") else "data_loader"


def restart(augmenter: Any, *, patience: float = 2.0) -> None:
    """Restart the workers of a multi-threaded augmenter, once no batch is on its way out of one.

    A worker that ends while its batch is being received makes the receiving thread of batchgenerators print a
    traceback, which means nothing and looks like the end of the training.

    Args:
        augmenter: Of batchgenerators.
        patience: How long to wait for batches on their way, seconds.
    """
    pause = getattr(augmenter, "pause_event", None)
    if pause is not None:
        pause.set()
        quiet_since = start = time.monotonic()
        while (now := time.monotonic()) < start + patience and now < quiet_since + 0.1:
            if not (augmenter._queue.empty() or augmenter.results_loop_queue.full()):
                quiet_since = now
            time.sleep(0.005)
    augmenter.restart()
