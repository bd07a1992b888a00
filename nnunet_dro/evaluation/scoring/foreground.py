"""The foreground of two label maps, found in one pass for all labels and regions.

Joint counts and boxes follow from it.

Most of a label map is background in both. Voxels are looked at eight bytes at a time: words without
foreground are skipped, and words that hold one label in both maps are counted at once.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.scoring.grid import IntegerArray

Int64Array = npt.NDArray[np.int64]
IndexArray = npt.NDArray[np.intp]
WordArray = npt.NDArray[np.uint64]
Box = tuple[slice, ...]

#: Up to this many pairs of values, counting by index is faster than sorting the values.
_MAX_INDEXED_PAIRS = 1 << 22

#: Values from here on are not used as indices.
_MAX_INDEXED_VALUE = 1 << 10

#: Words per step, so that a step's memory stays in the processor's cache.
_STEP = 1 << 15

_WORD_BYTES = 8
_BYTE = np.uint64(0xFF)
_REPEAT = np.uint64(0x0101010101010101)


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
    """The parts of two label maps (z, y, x) where one of them is not background."""

    words: tuple[WordArray, WordArray]  # eight bytes each of reference and prediction
    first: IndexArray  # the flat index of the voxel where each begins, increasing
    rest: tuple[IntegerArray, IntegerArray]  # the voxels of both after the last whole word
    shape: tuple[int, ...]

    @classmethod
    def of(cls, reference: IntegerArray, prediction: IntegerArray) -> "Foreground":
        """Find the foreground of two label maps of the same shape (z, y, x)."""
        dtype = np.result_type(reference, prediction)
        if not np.issubdtype(dtype, np.integer):
            # Only int64 and uint64 have no integer type in common.
            dtype = np.dtype(np.int64)

        reference_voxels = np.ascontiguousarray(reference, dtype=dtype).ravel()
        prediction_voxels = np.ascontiguousarray(prediction, dtype=dtype).ravel()

        per_word = _WORD_BYTES // dtype.itemsize
        n_in_words = len(reference_voxels) // per_word * per_word
        reference_words = reference_voxels[:n_in_words].view(np.uint64)
        prediction_words = prediction_voxels[:n_in_words].view(np.uint64)
        where = _foreground_words(reference_words, prediction_words)

        return cls(
            words=(reference_words[where], prediction_words[where]),
            first=where * per_word,
            rest=(reference_voxels[n_in_words:], prediction_voxels[n_in_words:]),
            shape=reference.shape,
        )

    @property
    def _dtype(self) -> np.dtype[Any]:
        return self.rest[0].dtype

    @property
    def _per_word(self) -> int:
        return _WORD_BYTES // self._dtype.itemsize

    @cached_property
    def _is_uniform(self) -> npt.NDArray[np.bool_]:
        """Words that hold a single value, the same in both maps, shape (n_words,).

        They are looked for among maps of bytes alone.
        """
        reference, prediction = self.words
        if self._dtype.itemsize > 1:
            return np.zeros(len(reference), dtype=np.bool_)

        lowest_bytes = reference & _BYTE
        has_one_value = lowest_bytes * _REPEAT == reference
        return has_one_value & (reference == prediction)

    @cached_property
    def _uniform_values(self) -> IntegerArray:
        """The value in each uniform word."""
        in_reference, _ = self.words
        voxels = in_reference[self._is_uniform].view(self._dtype)
        return voxels[:: self._per_word]

    @cached_property
    def counts(self) -> JointCounts:
        """How often each pair of values occurs."""
        parts = []
        if self._is_uniform.any():
            parts.append(self._uniform_counts())

        is_mixed = ~self._is_uniform
        mixed_voxels = []
        for words, rest in zip(self.words, self.rest, strict=True):
            in_words = words[is_mixed].view(self._dtype)
            mixed_voxels.append(np.concatenate([in_words, rest]))
        parts.append(_count(*mixed_voxels))

        return JointCounts(
            reference=np.concatenate([part.reference for part in parts]),
            prediction=np.concatenate([part.prediction for part in parts]),
            n_voxels=np.concatenate([part.n_voxels for part in parts]),
        )

    def _uniform_counts(self) -> JointCounts:
        """The counts of the voxels in uniform words."""
        # Counted without a sign, which is given back to the values that occur.
        unsigned = self._uniform_values.view(np.uint8)
        n_words = np.bincount(unsigned, minlength=256)
        occurring = np.flatnonzero(n_words)

        n_voxels = self._per_word * n_words[occurring]
        values = occurring.astype(np.uint8).view(self._dtype)
        values = values.astype(np.int64)
        return JointCounts(
            reference=values,
            prediction=values,
            n_voxels=n_voxels,
        )

    @cached_property
    def boxes(self) -> dict[int, Box]:
        """Value to a box (slices along z, y, x) that holds all its voxels in both maps.

        The box is as small as whole words allow.
        """
        values, first = self._values_and_words()
        if not len(values):
            return {}

        codes, value_of_code = _codes(values)
        sides = self._sides(codes, first)

        boxes = {}
        occurring = np.flatnonzero(np.bincount(codes))
        for code in occurring.tolist():
            box = [slice(int(begin[code]), int(end[code])) for begin, end in sides]
            value = int(value_of_code[code])
            boxes[value] = tuple(box)
        return boxes

    def _sides(self, codes: Int64Array, first: IndexArray) -> list[tuple[IndexArray, IndexArray]]:
        """Begin and end of every code's box along z, y and x.

        Args:
            codes: A code in every word, shape (n,).
            first: The flat index of the voxel where that word begins, shape (n,).
        """
        n_z, n_y, n_x = self.shape
        per_word = self._per_word
        plane = first // (n_y * n_x)
        row = first // n_x % n_y

        if n_x % per_word == 0:
            # Every word lies in one row.
            word_of_row = first % n_x // per_word
            begin, end = _extent(codes, [word_of_row], n_x // per_word)
            return [
                _extent(codes, [plane], n_z),
                _extent(codes, [row], n_y),
                (begin * per_word, end * per_word),
            ]

        # A word that may run on into the next row covers both, and may have any column.
        last = np.minimum(first + per_word - 1, math.prod(self.shape) - 1)
        last_plane = last // (n_y * n_x)
        last_row = last // n_x % n_y
        planes = _extent(codes, [plane, last_plane], n_z)
        rows = _extent(codes, [row, last_row], n_y)

        begin = np.zeros_like(rows[0])
        if n_x < per_word:
            # Rows are shorter than a word, which may cover several.
            rows = (begin, np.full_like(begin, n_y))
        columns = (begin, np.full_like(begin, n_x))
        return [planes, rows, columns]

    def _values_and_words(self) -> tuple[IntegerArray, IndexArray]:
        """The foreground values of every word, and where the word begins.

        A value may occur more than once.
        """
        values: list[IntegerArray] = [self._uniform_values]
        first = [self.first[self._is_uniform]]

        is_mixed = ~self._is_uniform
        begin = np.repeat(self.first[is_mixed], self._per_word)
        n_voxels = math.prod(self.shape)
        for words, rest in zip(self.words, self.rest, strict=True):
            voxels = words[is_mixed].view(self._dtype)
            voxels = voxels.reshape(-1, self._per_word)

            # The first of a run of equal voxels in a word is enough.
            is_wanted = voxels != 0
            begins_run = voxels[:, 1:] != voxels[:, :-1]
            is_wanted[:, 1:] &= begins_run
            values.append(voxels[is_wanted])
            first.append(begin[is_wanted.ravel()])

            # Voxels after the last whole word stand for themselves.
            in_rest = np.flatnonzero(rest)
            values.append(rest[in_rest])
            first.append(n_voxels - len(rest) + in_rest)

        return np.concatenate(values), np.concatenate(first)


def enclosing(boxes: Iterable[Box]) -> Box:
    """The smallest box that holds all of these."""
    box = []
    for sides in zip(*boxes, strict=True):
        begin = min(side.start for side in sides)
        end = max(side.stop for side in sides)
        box.append(slice(begin, end))
    return tuple(box)


def _extent(
    codes: Int64Array, coordinates: list[IndexArray], length: int
) -> tuple[IndexArray, IndexArray]:
    """First coordinate of every code along an axis, and one past its last.

    Every code has a coordinate in each of the arrays.
    """
    n_codes = int(codes.max()) + 1
    shape = (n_codes, length)
    is_there = np.zeros(shape, dtype=np.bool_)

    for coordinate in coordinates:
        places = codes * length + coordinate
        counts = np.bincount(places, minlength=n_codes * length)
        is_there |= counts.reshape(shape) > 0

    # Of equal numbers argmax takes the first.
    begin = is_there.argmax(axis=1)
    n_after = is_there[:, ::-1].argmax(axis=1)
    end = length - n_after
    return begin, end


def _foreground_words(reference: WordArray, prediction: WordArray) -> IndexArray:
    """Where one of the two maps has foreground."""
    where = []
    # Every step writes into the same memory.
    either = np.empty(_STEP, dtype=np.uint64)
    is_foreground = np.empty(_STEP, dtype=np.bool_)

    for start in range(0, len(reference), _STEP):
        step = slice(start, start + _STEP)
        if start + _STEP > len(reference):
            # The last step is shorter.
            n_words = len(reference) - start
            either = either[:n_words]
            is_foreground = is_foreground[:n_words]

        np.bitwise_or(reference[step], prediction[step], out=either)
        np.not_equal(either, 0, out=is_foreground)
        here = np.flatnonzero(is_foreground)
        if len(here):
            where.append(here + start)

    if not where:
        return np.zeros(0, dtype=np.intp)
    return np.concatenate(where)


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
