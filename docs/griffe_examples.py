"""Docstrings for the site: griffe knows the section of examples by its plural only."""

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Renames the section, so that what follows ``>>>`` is shown as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(
                r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE
            )
