"""Data of a seed, read once for all runs of the seed that a process makes."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Data = TypeVar("Data")

#: Function to its last seed and the data of that.
_LAST: dict[str, tuple[int, Any]] = {}


@dataclass(frozen=True)
class OfSeed(Generic[Data]):
    """A function of the seed that remembers the data of the last one, in every process to which it is sent.

    Attributes:
        read: The function.
        name: A name that no other has.
    """

    read: Callable[[int], Data]
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __call__(self, seed: int) -> Data:
        """The data of a seed.

        Args:
            seed: The seed.
        """
        last = _LAST.get(self.name)
        if last is None or last[0] != seed:
            # The data of the last seed make room before others are read.
            _LAST.pop(self.name, None)
            last = _LAST[self.name] = seed, self.read(seed)
        data: Data = last[1]
        return data
