"""nnU-Net's data loader, with the cases drawn from the hardness table."""

import time
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from nnunetv2.training.dataloading.data_loader import nnUNetDataLoader
from numpy.typing import NDArray

from nnunet_dro.sampling import Draws, HardnessTable
from nnunet_dro.trainers.case_columns import entry_of
from nnunet_dro.trainers.data.subvolumes import Subvolumes, locations_inside

Loader = TypeVar("Loader", bound="DrawsByHardness")


class DrawsByHardness:
    """Mixin for a data loader of nnU-Net that draws its cases from a table.

    It adds the draws to its batches. With sub-volumes, the items of the table are cells, and the
    centre of a patch lies in the cell that was drawn.
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
        """Replace a loader that nnU-Net set up.

        The table has the cases of the loader in the same order, or the sub-volumes.
        """
        if not issubclass(cls, type(loader)):
            base = type(loader).__name__
            raise TypeError(
                f"`loader_class` must derive from {base}, the data loader of this trainer, got "
                f"{cls.__name__}. Write `class MyLoader(DrawsByHardness, {base})` and set it on "
                "your trainer."
            )

        taken_over = cls.__new__(cls)
        taken_over.__dict__.update(loader.__dict__)
        for name, value in loader.__dict__.items():
            # nnU-Net stores one of its bound methods, the choice of oversampling.
            if getattr(value, "__self__", None) is loader:
                setattr(taken_over, name, getattr(taken_over, value.__name__))

        taken_over.table = table
        taken_over.subvolumes = subvolumes
        return taken_over

    def set_thread_id(self, thread_id: int) -> None:
        """Called in each worker, which must not draw the same cases as the other workers."""
        super().set_thread_id(thread_id)  # type: ignore[misc]
        self._rng = None

    def get_indices(self) -> NDArray[np.str_]:
        """Names of the cases of the next batch."""
        if self._rng is None:
            # nnU-Net seeds the global state of numpy in each worker.
            seed = np.random.randint(2**32, size=4, dtype=np.uint32)  # noqa: NPY002
            self._rng = np.random.default_rng(seed)

        self._draws = self.table.draw(self.batch_size, rng=self._rng)
        self._n_placed = 0

        cases = self.table.cases
        positions: NDArray[np.integer] = self._draws.indices
        if self.subvolumes is not None:
            cases = self.subvolumes.cases
            positions = self.subvolumes.case_of[positions]

        return np.array([cases[i] for i in positions])

    # The arguments after `class_locations` are nnU-Net's, or those of a loader with a signature of
    # its own.
    def get_bbox(
        self,
        data_shape: Sequence[int],
        force_fg: bool,
        class_locations: Any,
        *options: Any,
        **named: Any,
    ) -> tuple[list[int], list[int]]:
        """Choose a patch as nnU-Net does, but with its centre in the sub-volume that was drawn.

        nnU-Net gets only the locations inside the sub-volume. Where it would crop at random,
        possibly because there are no such locations, the centre is uniform over those voxels of the
        sub-volume that nnU-Net's random crops can be centred on. If there are none (near the
        border, or in a small volume), the centre is the nearest such voxel.
        """
        choose = super().get_bbox  # type: ignore[misc]
        if self.subvolumes is None:
            return choose(data_shape, force_fg, class_locations, *options, **named)

        # The patches of a batch come in the order of its draws.
        if self._n_placed == len(self._draws.indices):
            raise self._not_once_per_sample("more than")
        item = self._draws.indices[self._n_placed]
        start, stop = self.subvolumes.bounds(item, data_shape)
        self._n_placed += 1

        if force_fg or self.has_ignore:
            inside = locations_inside(class_locations, start, stop)
            if self._can_choose(inside, force_fg=force_fg):
                return choose(
                    data_shape,
                    force_fg,
                    inside,
                    *options,
                    **named,
                )

        # nnU-Net's random crop takes no bounds, so the centre is drawn here. As the only location
        # of every class, it is where nnU-Net then puts the patch.
        centre = self._draw_centre(start, stop, np.asarray(data_shape))
        location = np.array([[0, *centre]])
        everywhere = dict.fromkeys(class_locations or (0,), location)
        return choose(data_shape, True, everywhere, *options, **named)

    def _can_choose(self, inside: dict[Any, NDArray[Any]], *, force_fg: bool) -> bool:
        """Whether nnU-Net would choose one of these locations, and not crop at random."""
        if force_fg:
            return any(len(locations) for locations in inside.values())
        return len(inside.get(self.annotated_classes_key, ())) > 0

    def _draw_centre(
        self, start: NDArray[np.int64], stop: NDArray[np.int64], shape: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """A voxel of a box that nnU-Net's random crops can be centred on, or the nearest one."""
        # nnU-Net computes these bounds inside its get_bbox, but only applies the lower one if it
        # centres the patch on a voxel: beyond the upper one, the patch would contain more padding
        # than nnU-Net's random crops do.
        patch = np.asarray(self.patch_size)
        half = patch // 2

        lowest_corner = -np.maximum(self.need_to_pad, patch - shape) // 2
        highest_corner = shape - patch - lowest_corner
        lowest = lowest_corner + half
        highest = highest_corner + half

        first = np.clip(start, lowest, highest)
        last = np.clip(stop - 1, lowest, highest)
        rng: np.random.Generator = self._rng  # type: ignore[assignment]
        return rng.integers(first, last, endpoint=True)

    def _not_once_per_sample(self, how_often: str) -> RuntimeError:
        n_samples = len(self._draws.indices)
        return RuntimeError(
            f"`{type(self).__name__}.generate_train_batch` must call get_bbox once per sample, in "
            f"the order of get_indices, called it {how_often} {n_samples} times for as many "
            "samples. Otherwise it is unknown which sub-volume a patch belongs to. Train without "
            "sub-volumes, or change the loader."
        )

    def generate_train_batch(self) -> dict[str, Any]:
        """nnU-Net's batch, with its draws added."""
        batch: dict[str, Any] = super().generate_train_batch()  # type: ignore[misc]

        if self.subvolumes is not None and self._n_placed != len(self._draws.indices):
            raise self._not_once_per_sample("fewer than")
        batch.update(entry_of(self._draws))
        return batch


class HardnessDataLoader(DrawsByHardness, nnUNetDataLoader):  # type: ignore[misc]
    """nnU-Net's data loader, with the cases drawn from the hardness table."""


def loader_of(augmenter: Any) -> Any:
    """The data loader that an augmenter of batchgenerators takes its batches from.

    The augmenter may have workers or not.
    """
    return getattr(augmenter, _holder_of(augmenter))


#: No batch is on its way if none was seen for so long. One that has left the queue is still being
#: received, which takes a while on a busy machine.
_QUIET_SECONDS = 0.3


def put_loader(augmenter: Any, loader: Any) -> None:
    """Make an augmenter take its batches from another loader.

    If it has workers, they are restarted, and their batches dropped.
    """
    setattr(augmenter, _holder_of(augmenter), loader)
    restart(augmenter)


def _holder_of(augmenter: Any) -> str:
    """The attribute with the loader: that of an augmenter with workers is called otherwise."""
    return "generator" if hasattr(augmenter, "generator") else "data_loader"


def restart(augmenter: Any, *, patience: float = 2.0) -> None:
    """Restart the workers, if there are any, once none of their batches is on its way.

    After ``patience`` seconds they are restarted all the same.
    """
    if not hasattr(augmenter, "restart"):
        return
    pause = getattr(augmenter, "pause_event", None)
    if pause is not None:
        # If a worker ends while its batch is being received, batchgenerators prints a traceback, as
        # if all had ended.
        pause.set()
        start = time.monotonic()
        now = start
        quiet_since = start
        while now < start + patience and now < quiet_since + _QUIET_SECONDS:
            is_quiet = augmenter._queue.empty() or augmenter.results_loop_queue.full()
            if not is_quiet:
                quiet_since = now
            time.sleep(0.005)
            now = time.monotonic()
    augmenter.restart()
