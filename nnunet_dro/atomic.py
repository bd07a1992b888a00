"""Files that are there whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file beside ``path`` and move it there once it is complete.

    A process that is killed meanwhile, or an error, leaves what was at ``path`` before.

    Args:
        path: The file to write or replace.

    Yields:
        The path to write to, in the same folder and with the same suffix. If nothing was written to it, ``path``
        stays as it is.
    """
    path = Path(path)
    partial = path.with_name(f"{path.stem}.partial{path.suffix}")
    try:
        yield partial
        if partial.exists():
            with partial.open("r+b") as file:
                os.fsync(file.fileno())
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
