"""JSON in files, which may be damaged."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def read_json(
    path: Path,
    *,
    encoding: str = "utf-8",
    errors: str = "strict",
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """Read a JSON file.

    Args:
        path: The file.
        encoding: Of the file; ``utf-8-sig`` also reads those that begin with a byte order mark.
        errors: What to do with bytes that the encoding does not have; see `open`.
        object_pairs_hook: What to make of objects; see `json.loads`.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is not JSON; also where brackets are nested too deeply.
    """
    text = path.read_text(encoding=encoding, errors=errors)
    try:
        return json.loads(text, object_pairs_hook=object_pairs_hook)
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error
