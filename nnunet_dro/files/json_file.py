"""JSON in files: written for others to read, and read from files that may be damaged."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnunet_dro.naming import repeated

if TYPE_CHECKING:
    import pandas as pd


def json_text(content: Any) -> str:
    """The text of a summary.json; JSON has no NaN, which is an error here."""
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def json_records(table: "pd.DataFrame") -> list[dict[str, Any]]:
    """The rows of a table as dictionaries, with None for NaN."""
    values = table.astype(object)
    return values.where(values.notna(), None).to_dict(orient="records")


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


def without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping in which no name is twice, for `read_json`; JSON would keep the last one only."""
    twice = repeated(name for name, _ in pairs)
    if twice:
        raise ValueError(f"{twice[0]!r} is duplicated")
    return dict(pairs)
