"""The foreground of two label maps, found in one pass for all labels and regions.

Joint counts and boxes.

Most of a label map is background in both. Voxels are looked at eight bytes at a time: words without
foreground are skipped, and words that hold one label in both maps are counted at once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.scoring.grid import IntegerArray

IndexArray = npt.NDArray[np.intp]
WordArray = npt.NDArray[np.uint64]
Box = tuple[slice, ...]

_MAX_INDEXED_PAIRS = (
    1 << 22
)  # Up to this many pairs of values, counting by index is faster than sorting the values.
_MAX_INDEXED_VALUE = 1 << 10  # Values from here on are not used as indices.
_STEP = 1 << 15  # Words per step, so that a step's memory stays in the processor's cache.

_BYTE = np.uint64(0xFF)
_REPEAT = np.uint64(0x0101010101010101)


@dataclass(frozen=True)
class JointCounts:
    """How often each pair of values occurs, arrays (n_pairs,).

    Some more than once, (0, 0) incompletely.
    """

    reference: npt.NDArray[np.int64]
    prediction: npt.NDArray[np.int64]
    n_voxels: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Foreground:
    """The parts of two label maps (z, y, x) where one of them is not background."""

    words: tuple[WordArray, WordArray]  # eight bytes each of reference and prediction
    first: IndexArray  # the flat index of the voxel where each begins, increasing
    rest: tuple[
        IntegerArray, IntegerArray
    ]  # the voxels of both that come after the last whole word
    shape: tuple[int, ...]

    @classmethod
    def of(cls, reference: IntegerArray, prediction: IntegerArray) -> "Foreground":
        """Find the foreground of two label maps of the same shape (z, y, x)."""
        dtype = np.result_type(reference, prediction)
        # Only int64 and uint64 have no integer type in common.
        dtype = dtype if np.issubdtype(dtype, np.integer) else np.dtype(np.int64)
        a, b = (
            np.ascontiguousarray(values, dtype=dtype).ravel() for values in (reference, prediction)
        )
        per_word = 8 // dtype.itemsize
        n_in_words = len(a) // per_word * per_word
        words = [values[:n_in_words].view(np.uint64) for values in (a, b)]
        where = _foreground_words(*words)
        rest = (a[n_in_words:], b[n_in_words:])
        return cls((words[0][where], words[1][where]), where * per_word, rest, reference.shape)

    @property
    def _dtype(self) -> np.dtype[Any]:
        return self.rest[0].dtype

    @property
    def _per_word(self) -> int:
        return 8 // self._dtype.itemsize

    @cached_property
    def _uniform(self) -> npt.NDArray[np.bool_]:
        """Words that hold a single value, the same in both maps, shape (n_words,)."""
        reference, prediction = self.words
        if self._dtype.itemsize > 1:
            return np.zeros(len(reference), dtype=np.bool_)
        return (reference == prediction) & ((reference & _BYTE) * _REPEAT == reference)

    @cached_property
    def _uniform_values(self) -> IntegerArray:
        return (self.words[0][self._uniform] & _BYTE).astype(np.uint8).view(self._dtype)

    @cached_property
    def counts(self) -> JointCounts:
        """How often each pair of values occurs."""
        parts: list[tuple[npt.NDArray[np.int64], ...]] = []
        if self._uniform.any():
            n_uniform = np.bincount(self._uniform_values.view(np.uint8), minlength=256)
            codes = np.flatnonzero(n_uniform)
            values = codes.astype(np.uint8).view(self._dtype).astype(np.int64)
            parts.append((values, values, self._per_word * n_uniform[codes]))
        mixed = (words[~self._uniform].view(self._dtype) for words in self.words)
        parts.append(
            _count(*(np.concatenate(voxels) for voxels in zip(mixed, self.rest, strict=True)))
        )
        reference, prediction, n_voxels = (
            np.concatenate(columns) for columns in zip(*parts, strict=True)
        )
        return JointCounts(reference, prediction, n_voxels)

    @cached_property
    def boxes(self) -> dict[int, Box]:
        """Value to a box (slices along z, y, x) that holds all its voxels in both maps, as small as words allow."""
        values, first = self._values_and_words()
        if not len(values):
            return {}
        codes, names = _codes(values)
        n_voxels = int(np.prod(self.shape))
        _, n_y, n_x = self.shape
        last = np.minimum(first + self._per_word - 1, n_voxels - 1)
        in_rows = n_x % self._per_word == 0
        # A word that may run on into the next row covers both.
        ends = (first,) if in_rows else (first, last)
        sides = [
            _extent(codes, [end // (n_x * n_y) for end in ends], self.shape[0]),
            _extent(codes, [end // n_x % n_y for end in ends], n_y),
        ]
        if in_rows:
            low, high = _extent(codes, [first % n_x // self._per_word], n_x // self._per_word)
            sides.append((low * self._per_word, high * self._per_word))
        elif n_x < self._per_word:
            # Rows shorter than a word: it may cover several.
            sides[1] = (np.zeros_like(sides[1][0]), np.full_like(sides[1][1], n_y))
        boxes = {}
        for code in np.flatnonzero(np.bincount(codes)).tolist():
            box = tuple(slice(int(low[code]), int(high[code])) for low, high in sides)
            boxes[int(names[code])] = box if in_rows else (*box, slice(0, n_x))
        return boxes

    def _values_and_words(self) -> tuple[IntegerArray, IndexArray]:
        """The foreground values of every word, and where the word begins.

        A value may occur more than once.
        """
        values: list[IntegerArray] = [self._uniform_values]
        first = [self.first[self._uniform]]
        mixed = ~self._uniform
        begin = np.repeat(self.first[mixed], self._per_word)
        n_voxels = int(np.prod(self.shape))
        for words, rest in zip(self.words, self.rest, strict=True):
            voxels = words[mixed].view(self._dtype).reshape(-1, self._per_word)
            wanted = voxels != 0
            # Of a run of voxels in a word one is enough.
            wanted[:, 1:] &= voxels[:, 1:] != voxels[:, :-1]
            values += [voxels[wanted], rest[rest != 0]]
            first += [begin[wanted.ravel()], n_voxels - len(rest) + np.flatnonzero(rest)]
        return np.concatenate(values), np.concatenate(first)


def enclosing(boxes: Iterable[Box]) -> Box:
    """The smallest box that holds all of these."""
    return tuple(
        slice(min(s.start for s in sides), max(s.stop for s in sides))
        for sides in zip(*boxes, strict=True)
    )


def _extent(
    codes: npt.NDArray[np.int64], coordinates: list[IndexArray], n: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """First coordinate of every code, and one past its last."""
    n_codes = int(codes.max()) + 1
    there = np.zeros((n_codes, n), dtype=np.bool_)
    for along in coordinates:
        there |= np.bincount(codes * n + along, minlength=n_codes * n).reshape(n_codes, n) > 0
    return there.argmax(axis=1), n - there[:, ::-1].argmax(axis=1)


def _foreground_words(reference: WordArray, prediction: WordArray) -> IndexArray:
    """Where one of the two maps has foreground."""
    where = []
    either = np.empty(_STEP, dtype=np.uint64)
    found = np.empty(_STEP, dtype=np.bool_)
    for start in range(0, len(reference), _STEP):
        part = slice(start, start + _STEP)
        n = len(reference[part])
        np.bitwise_or(reference[part], prediction[part], out=either[:n])
        here = np.flatnonzero(np.not_equal(either[:n], 0, out=found[:n]))
        if len(here):
            where.append(here + start)
    return np.concatenate(where) if where else np.zeros(0, dtype=np.intp)


def _count(reference: IntegerArray, prediction: IntegerArray) -> tuple[npt.NDArray[np.int64], ...]:
    reference_codes, reference_values = _codes(reference)
    prediction_codes, prediction_values = _codes(prediction)
    n_prediction = len(prediction_values)
    codes = reference_codes * n_prediction + prediction_codes
    if len(reference_values) * n_prediction <= _MAX_INDEXED_PAIRS:
        counts = np.bincount(codes, minlength=1)
        pairs = np.flatnonzero(counts)
        n_voxels = counts[pairs]
    else:
        pairs, n_voxels = np.unique(codes, return_counts=True)
    return (
        reference_values[pairs // n_prediction],
        prediction_values[pairs % n_prediction],
        n_voxels,
    )


def _codes(flat: IntegerArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Voxels as indices into a list of values, and that list.

    Small label values are their own indices.
    """
    if not flat.size:
        return np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    if flat.min() >= 0 and flat.max() < _MAX_INDEXED_VALUE:
        return flat.astype(np.int64), np.arange(int(flat.max()) + 1, dtype=np.int64)
    values, codes = np.unique(flat, return_inverse=True)
    return codes.astype(np.int64), values.astype(np.int64)
