"""Numpy arrays in memory that several processes share."""

import ctypes
from multiprocessing.sharedctypes import RawArray
from typing import Any

import numpy as np
from numpy.typing import NDArray

_C_TYPES = {"float64": ctypes.c_double, "int64": ctypes.c_int64, "bool": ctypes.c_bool}


class SharedArrays:
    """Named vectors, filled with zeros, in memory shared by all processes that inherit or receive this object.

    No lock is taken. When the object is pickled for a worker, the memory itself is handed over, and the worker makes
    its own views of it.

    Example:
        >>> shared = SharedArrays(losses=(3, "float64"), seen=(3, "bool"))
        >>> shared.losses[1] = 0.5
        >>> shared.losses.tolist()
        [0.0, 0.5, 0.0]
    """

    def __init__(self, **arrays: tuple[int, str]) -> None:
        self._memory: dict[str, Any] = {name: RawArray(_C_TYPES[t], n) for name, (n, t) in arrays.items()}
        self._view()

    @property
    def nbytes(self) -> int:
        """Size of the memory in bytes."""
        return sum(view.nbytes for view in self._views().values())

    def _views(self) -> dict[str, NDArray[Any]]:
        return {name: np.frombuffer(memory, dtype=memory._type_) for name, memory in self._memory.items()}

    def _view(self) -> None:
        self.__dict__.update(self._views())

    def __getattr__(self, name: str) -> NDArray[Any]:
        raise AttributeError(f"`{name}` is not one of the shared arrays.")

    def __getstate__(self) -> dict[str, Any]:
        return self._memory

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._memory = state
        self._view()
