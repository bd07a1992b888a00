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
    """Read a JSON file; brackets that are nested too deeply are a ValueError as well."""
    text = path.read_text(encoding=encoding, errors=errors)
    try:
        return json.loads(text, object_pairs_hook=object_pairs_hook)
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error
