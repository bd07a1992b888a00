"""Numpy arrays that several processes see."""

import ctypes
from multiprocessing.sharedctypes import RawArray
from typing import Any

import numpy as np
from numpy.typing import NDArray

_C_TYPES = {"float64": ctypes.c_double, "int64": ctypes.c_int64, "bool": ctypes.c_bool}


class SharedArrays:
    """Named vectors in memory that the processes share which inherit or receive this object; zero at first.

    No lock is taken. Pickled for a worker, the memory travels as such and the views on it are made anew.

    Args:
        **arrays: Name to length and type, one of float64, int64 and bool: ``losses=(20, "float64")``.
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
        raise AttributeError(f"There is no shared array `{name}`.")

    def __getstate__(self) -> dict[str, Any]:
        return self._memory

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._memory = state
        self._view()
