"""The joint histogram of two label maps: one pass that serves every label and region.

Most of a label map is background in both. Voxels are looked at eight bytes at a time, words without foreground are
skipped, and words that hold one label in both maps are counted at once.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.grid import IntegerArray

IndexArray = npt.NDArray[np.intp]
WordArray = npt.NDArray[np.uint64]

#: Up to this many pairs of values, counting by index is faster than sorting the values.
_MAX_INDEXED_PAIRS = 1 << 22

#: Words per step, so that a step's memory stays in the processor's cache.
_STEP = 1 << 15

_BYTE, _REPEAT = np.uint64(0xFF), np.uint64(0x0101010101010101)


@dataclass(frozen=True)
class JointCounts:
    """How often each pair of reference and prediction value occurs.

    Attributes:
        reference: Reference value of each pair, shape (n_pairs,).
        prediction: Prediction value of each pair, shape (n_pairs,). A pair may be there more than once.
        n_voxels: Number of voxels with this pair, shape (n_pairs,), > 0. The pair (0, 0) need not be complete.
        box: The smallest box of whole rows (slices along z, y, x) that holds all foreground of both.
    """

    reference: npt.NDArray[np.int64]
    prediction: npt.NDArray[np.int64]
    n_voxels: npt.NDArray[np.int64]
    box: tuple[slice, ...]

    @classmethod
    def of(cls, reference: IntegerArray, prediction: IntegerArray) -> "JointCounts":
        """Count the pairs of two label maps of the same shape (z, y, x)."""
        dtype = np.result_type(reference, prediction)
        # Only int64 and uint64 have no common integer type.
        dtype = dtype if np.issubdtype(dtype, np.integer) else np.dtype(np.int64)
        flat = [np.ascontiguousarray(values, dtype=dtype).ravel() for values in (reference, prediction)]
        per_word = 8 // dtype.itemsize
        n_in_words = len(flat[0]) // per_word * per_word
        words, where = _foreground_words(*(values[:n_in_words].view(np.uint64) for values in flat))
        box = _box(where * per_word, per_word, len(flat[0]) - n_in_words, reference.shape)
        parts: list[tuple[npt.NDArray[np.int64], ...]] = []
        if dtype.itemsize == 1:
            uniform = (words[0] == words[1]) & ((words[0] & _BYTE) * _REPEAT == words[0])
            n_uniform = np.bincount((words[0][uniform] & _BYTE).astype(np.intp), minlength=256)
            codes = np.flatnonzero(n_uniform)
            values = codes.astype(np.uint8).view(dtype).astype(np.int64)
            parts.append((values, values, 8 * n_uniform[codes]))
            words = [of_map[~uniform] for of_map in words]
        voxels = [
            np.concatenate([of_map.view(dtype), values[n_in_words:]])
            for of_map, values in zip(words, flat, strict=True)
        ]
        parts.append(_count(*voxels))
        in_reference, in_prediction, n_voxels = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return cls(in_reference, in_prediction, n_voxels, box)


def _foreground_words(reference: WordArray, prediction: WordArray) -> tuple[list[WordArray], IndexArray]:
    """The words of both maps that have foreground in one of them, and where they are."""
    where = []
    either = np.empty(_STEP, dtype=np.uint64)
    for start in range(0, len(reference), _STEP):
        part = slice(start, start + _STEP)
        here = either[: len(reference[part])]
        np.bitwise_or(reference[part], prediction[part], out=here)
        if here.any():
            where.append(np.flatnonzero(here) + start)
    found: IndexArray = np.concatenate(where) if where else np.zeros(0, dtype=np.intp)
    return [reference[found], prediction[found]], found


def _box(first: IndexArray, per_word: int, n_rest: int, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """The box around the words that start at these voxels, and the voxels that fill no word."""
    n_voxels = int(np.prod(shape))
    if n_rest:
        first = np.append(first, n_voxels - n_rest)
    if not len(first):
        return (slice(0, 0),) * len(shape)
    _, n_y, n_x = shape
    z = (int(first[0]) // (n_y * n_x), min(int(first[-1]) + per_word - 1, n_voxels - 1) // (n_y * n_x))
    rows = np.flatnonzero(
        np.bincount(first // n_x % n_y, minlength=n_y)
        + np.bincount(np.minimum(first + per_word - 1, n_voxels - 1) // n_x % n_y, minlength=n_y)
    )
    # A word may begin in one row and end rows later where rows are shorter than it.
    y = (int(rows[0]), int(rows[-1])) if n_x >= per_word else (0, n_y - 1)
    return (slice(z[0], z[1] + 1), slice(y[0], y[1] + 1), slice(0, n_x))


def _count(reference: npt.NDArray[Any], prediction: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], ...]:
    reference_codes, reference_values = _codes(reference)
    prediction_codes, prediction_values = _codes(prediction)
    n_reference, n_prediction = len(reference_values), len(prediction_values)
    codes = reference_codes * n_prediction + prediction_codes
    if n_reference * n_prediction <= _MAX_INDEXED_PAIRS:
        counts = np.bincount(codes, minlength=1)
        pairs = np.flatnonzero(counts)
        n_voxels = counts[pairs]
    else:
        pairs, n_voxels = np.unique(codes, return_counts=True)
    return reference_values[pairs // n_prediction], prediction_values[pairs % n_prediction], n_voxels


def _codes(flat: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Voxels as indices into a list of values, and that list; small label values are their own indices."""
    if not flat.size:
        return np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    if flat.min() >= 0 and flat.max() < 1024:
        return flat.astype(np.int64), np.arange(int(flat.max()) + 1, dtype=np.int64)
    values, codes = np.unique(flat, return_inverse=True)
    return codes.astype(np.int64), values.astype(np.int64)
