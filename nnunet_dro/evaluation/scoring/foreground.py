"""The foreground of two label maps, found in one pass for all labels and regions.

Joint counts, boxes and masks follow from it.

Most of a label map is background. Rows are looked at in runs of eight voxels: only runs with
foreground are kept, so that a whole map is in memory only while it is read, and runs that hold one
label in both maps are counted at once.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from nnunet_dro.arrays import BoolArray, IndexArray, Int64Array
from nnunet_dro.evaluation.scoring.grid import IntegerArray

Box = tuple[slice, ...]

#: Up to this many pairs of values, counting by index is faster than sorting the values.
_MAX_INDEXED_PAIRS = 1 << 22

#: Values from here on are not used as indices.
_MAX_INDEXED_VALUE = 1 << 10

#: How many voxels of a row are looked at together.
_RUN = 8

#: Voxels per step, so that a step's memory stays in the processor's cache.
_STEP = 1 << 18

_BYTE = np.uint64(0xFF)
_REPEAT = np.uint64(0x0101010101010101)


@dataclass(frozen=True)
class Runs:
    """The runs of a label map (z, y, x) that are not all background.

    A row is divided into runs of eight voxels, and filled up with background.
    """

    voxels: tuple[IntegerArray, ...]  # of some planes each, shape (n_runs, 8)
    places: tuple[IntegerArray, ...]  # which run of the map each is, shape (n_runs,), increasing
    shape: tuple[int, ...]  # of the map

    @classmethod
    def of(cls, label_map: IntegerArray) -> "Runs":
        """Find the runs with foreground in a label map (z, y, x)."""
        n_planes, n_rows, n_columns = label_map.shape
        n_planes_at_once = max(1, _STEP // max(1, n_rows * n_columns))
        n_missing = -n_columns % _RUN
        kind_of_place = np.min_scalar_type(math.prod(_in_runs(label_map.shape)))

        voxels = []
        places = []
        n_before = 0
        for plane in range(0, max(1, n_planes), n_planes_at_once):
            planes = label_map[plane : plane + n_planes_at_once]
            if n_missing:
                planes = np.pad(planes, ((0, 0), (0, 0), (0, n_missing)))
            runs = np.ascontiguousarray(planes).reshape(-1, _RUN)

            # A run of bytes is one word.
            words = runs.view(np.uint64).T
            is_foreground = reduce(np.bitwise_or, words) != 0
            here = np.flatnonzero(is_foreground)
            voxels.append(runs.take(here, axis=0))
            places.append((here + n_before).astype(kind_of_place))
            n_before += len(runs)

        return cls(tuple(voxels), tuple(places), label_map.shape)

    def without_foreground(self) -> "Runs":
        """A label map of the same shape that is all background."""
        return Runs((self.voxels[0][:0],), (self.places[0][:0],), self.shape)


@dataclass(frozen=True)
class JointCounts:
    """How often each pair of reference and prediction value occurs, arrays of shape (n_pairs,).

    A pair may occur more than once; the pair (0, 0) need not be complete.
    """

    reference: Int64Array
    prediction: Int64Array
    n_voxels: Int64Array


@dataclass(frozen=True)
class Foreground:
    """The runs of two label maps (z, y, x) where one of them is not background."""

    voxels: tuple[IntegerArray, IntegerArray]  # of reference and prediction, shape (n_runs, 8)
    places: IndexArray  # which run of the maps each is, shape (n_runs,), increasing
    shape: tuple[int, ...]  # of the maps

    @classmethod
    def of(cls, reference: Runs, prediction: Runs) -> "Foreground":
        """Join the runs of two label maps of the same shape."""
        dtype = np.result_type(reference.voxels[0], prediction.voxels[0])
        if not np.issubdtype(dtype, np.integer):
            # Only int64 and uint64 have no integer type in common.
            dtype = np.dtype(np.int64)

        is_there = np.zeros((2, math.prod(_in_runs(reference.shape))), dtype=np.bool_)
        for runs, is_there_in_map in zip((reference, prediction), is_there, strict=True):
            is_there_in_map[np.concatenate(runs.places)] = True
        places = np.flatnonzero(is_there[0] | is_there[1])

        # As single items, runs are copied several times faster.
        run = np.dtype((np.void, _RUN * dtype.itemsize))
        voxels = np.zeros((2, len(places), _RUN), dtype=dtype)
        for runs, in_map, is_there_in_map in zip(
            (reference, prediction), voxels, is_there[:, places], strict=True
        ):
            foreground = np.concatenate(runs.voxels).astype(dtype, copy=False)
            in_map.view(run)[is_there_in_map, 0] = foreground.view(run)[:, 0]
        return cls((voxels[0], voxels[1]), places, reference.shape)

    @cached_property
    def _is_uniform(self) -> BoolArray:
        """Runs that hold a single value, the same in both maps, shape (n_runs,).

        They are looked for among maps of bytes alone.
        """
        reference, prediction = self.voxels
        if reference.itemsize > 1:
            return np.zeros(len(reference), dtype=np.bool_)

        words = reference.view(np.uint64).ravel()
        lowest_bytes = words & _BYTE
        has_one_value = lowest_bytes * _REPEAT == words
        return has_one_value & (words == prediction.view(np.uint64).ravel())

    @cached_property
    def _uniform_values(self) -> IntegerArray:
        """The value in each uniform run."""
        in_reference, _ = self.voxels
        return in_reference[self._is_uniform, 0]

    @cached_property
    def counts(self) -> JointCounts:
        """How often each pair of values occurs."""
        reference, prediction = (voxels[~self._is_uniform].ravel() for voxels in self.voxels)
        parts = [self._uniform_counts(), _count(reference, prediction)]
        return JointCounts(
            reference=np.concatenate([part.reference for part in parts]),
            prediction=np.concatenate([part.prediction for part in parts]),
            n_voxels=np.concatenate([part.n_voxels for part in parts]),
        )

    def _uniform_counts(self) -> JointCounts:
        """The counts of the voxels in uniform runs."""
        # Counted without a sign, which is given back to the values that occur.
        unsigned = self._uniform_values.view(np.uint8)
        n_runs = np.bincount(unsigned, minlength=256)
        occurring = np.flatnonzero(n_runs)

        n_voxels = _RUN * n_runs[occurring]
        with_sign = occurring.astype(np.uint8).view(self._uniform_values.dtype)
        values = with_sign.astype(np.int64)
        return JointCounts(reference=values, prediction=values, n_voxels=n_voxels)

    @cached_property
    def boxes(self) -> dict[int, Box]:
        """Value to a box (slices along z, y, x) that holds all its voxels in both maps.

        The box is as small as whole runs allow.
        """
        values, places = self._values_and_places()
        if not len(values):
            return {}

        codes, value_of_code = _codes(values)
        lengths = _in_runs(self.shape)
        axes = zip(_coordinates(places, lengths), lengths, strict=True)
        extents = np.stack([_extent(codes, coordinate, length) for coordinate, length in axes])
        extents[2] = np.minimum(_RUN * extents[2], self.shape[2])

        boxes = {}
        for code in np.flatnonzero(np.bincount(codes)).tolist():
            sides = extents[:, :, code].tolist()
            boxes[int(value_of_code[code])] = tuple(slice(begin, end) for begin, end in sides)
        return boxes

    def _values_and_places(self) -> tuple[IntegerArray, IndexArray]:
        """The foreground values of every run, and which run of the maps it is.

        A value may occur more than once.
        """
        values: list[IntegerArray] = [self._uniform_values]
        places = [self.places[self._is_uniform]]

        is_mixed = ~self._is_uniform
        mixed_places = self.places[is_mixed]
        for in_map in self.voxels:
            voxels = in_map[is_mixed]

            # The first of equal voxels side by side is enough.
            is_wanted = voxels != 0
            is_wanted[:, 1:] &= voxels[:, 1:] != voxels[:, :-1]
            wanted = np.flatnonzero(is_wanted)
            values.append(voxels.ravel()[wanted])
            places.append(mixed_places[wanted // _RUN])

        return np.concatenate(values), np.concatenate(places)

    def masks(
        self, values: Collection[int], box: Box, *, ignore: int | None = None
    ) -> tuple[BoolArray, BoolArray]:
        """Where reference and prediction have one of some values, in a box that holds all of these.

        Args:
            values: The values, at least one.
            box: Slices along z, y and x.
            ignore: Voxels with this value in the reference are not predicted; None for no value.
        """
        _, n_rows, n_runs = _in_runs(self.shape)
        planes, _, _ = box
        first_of_plane = n_rows * n_runs * np.array([planes.start, planes.stop])
        first, last = np.searchsorted(self.places, first_of_plane)
        reference, prediction = (voxels[first:last] for voxels in self.voxels)
        places = self.places[first:last]

        in_reference = _has_one_of(reference, values)
        in_prediction = _has_one_of(prediction, values)
        if ignore is not None:
            in_prediction &= reference != ignore
        return self._laid_out(in_reference, places, box), self._laid_out(in_prediction, places, box)

    def _laid_out(self, runs: BoolArray, places: IndexArray, box: Box) -> BoolArray:
        """Runs of a mask in a box (z, y, x) that holds all of the mask."""
        planes, rows, columns = box
        # The box may begin and end within runs.
        whole_runs = slice(columns.start // _RUN, -(-columns.stop // _RUN))
        sides = (planes, rows, whole_runs)
        words_in_box = np.zeros([side.stop - side.start for side in sides], dtype=np.uint64)

        words = runs.view(np.uint64).ravel()
        here = np.flatnonzero(words != 0)
        coordinates = _coordinates(places[here], _in_runs(self.shape))
        z, y, x = (
            coordinate - side.start for coordinate, side in zip(coordinates, sides, strict=True)
        )
        words_in_box[z, y, x] = words[here]

        n_skipped = columns.start % _RUN
        n_columns = columns.stop - columns.start
        return words_in_box.view(np.bool_)[:, :, n_skipped : n_skipped + n_columns]


def _in_runs(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """The shape (z, y, x) of a map in planes, rows and runs."""
    n_z, n_y, n_x = shape
    return n_z, n_y, -(-n_x // _RUN)


def _coordinates(
    places: IndexArray, lengths: tuple[int, int, int]
) -> tuple[IndexArray, IndexArray, IndexArray]:
    """Plane, row and run of some places in a map with so many of them."""
    # Several times faster than numpy.unravel_index.
    _, n_rows, n_runs = lengths
    row_of_map, run = np.divmod(places, n_runs)
    plane, row = np.divmod(row_of_map, n_rows)
    return plane, row, run


def _has_one_of(voxels: IntegerArray, values: Collection[int]) -> BoolArray:
    """Where voxels have one of some values."""
    # In place and one by one: there may be hundreds of megabytes of voxels.
    first, *others = values
    mask = voxels == first
    for value in others:
        mask |= voxels == value
    return mask


def enclosing(boxes: Iterable[Box]) -> Box:
    """The smallest box that holds all of these."""
    box = []
    for sides in zip(*boxes, strict=True):
        begin = min(side.start for side in sides)
        end = max(side.stop for side in sides)
        box.append(slice(begin, end))
    return tuple(box)


def _extent(codes: Int64Array, coordinate: IndexArray, length: int) -> IndexArray:
    """First coordinate of every code along an axis of some length, and one past its last.

    The array has shape (2, n_codes).
    """
    n_codes = int(codes.max()) + 1
    counts = np.bincount(codes * length + coordinate, minlength=n_codes * length)
    is_there = counts.reshape(n_codes, length) > 0

    # Of equal numbers argmax takes the first.
    begin = is_there.argmax(axis=1)
    n_after = is_there[:, ::-1].argmax(axis=1)
    return np.stack([begin, length - n_after])


def _count(reference: IntegerArray, prediction: IntegerArray) -> JointCounts:
    """How often each pair of values occurs in two arrays of voxels."""
    reference_codes, reference_values = _codes(reference)
    prediction_codes, prediction_values = _codes(prediction)

    # A pair of values is the number with these two digits.
    n_prediction = len(prediction_values)
    codes = reference_codes * n_prediction + prediction_codes
    if len(reference_values) * n_prediction <= _MAX_INDEXED_PAIRS:
        counts = np.bincount(codes, minlength=1)
        pairs = np.flatnonzero(counts)
        n_voxels = counts[pairs]
    else:
        pairs, n_voxels = np.unique(codes, return_counts=True)

    return JointCounts(
        reference=reference_values[pairs // n_prediction],
        prediction=prediction_values[pairs % n_prediction],
        n_voxels=n_voxels,
    )


def _codes(voxels: IntegerArray) -> tuple[Int64Array, Int64Array]:
    """Voxels as indices into a list of values, and that list.

    Small label values are their own indices.
    """
    if not voxels.size:
        return np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)

    largest = int(voxels.max())
    if voxels.min() >= 0 and largest < _MAX_INDEXED_VALUE:
        values = np.arange(largest + 1, dtype=np.int64)
        return voxels.astype(np.int64), values

    # Large or negative ones are not.
    values, codes = np.unique(voxels, return_inverse=True)
    return codes.astype(np.int64), values.astype(np.int64)
