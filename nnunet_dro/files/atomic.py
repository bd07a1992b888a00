"""Write files that are never seen half finished."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write to another file in the same folder, which replaces ``path`` once it is complete.

    If the process is killed meanwhile, an error is raised, or nothing is written, ``path`` stays as it was. The other
    file has its suffix.
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
