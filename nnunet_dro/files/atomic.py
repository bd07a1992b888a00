"""Write files that are never seen half finished."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write to another file in the same folder, which replaces ``path`` once it is complete.

    If the process is killed meanwhile, or an error is raised, ``path`` stays as it was.

    Args:
        path: The file to write or replace.

    Yields:
        The path to write to, in the same folder and with the same suffix. If nothing is written to it, ``path`` stays
        as it is.

    Example:
        >>> with replacing("cases.txt") as new:
        ...     size = new.write_text("001")
        >>> Path("cases.txt").read_text()
        '001'
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
