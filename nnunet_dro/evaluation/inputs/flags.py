"""How the command line and protocols have an option: a `Flag` in the annotation of its field."""

from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, get_type_hints

#: The panels of the help, beside the one with what everybody uses.
STRATA = "Strata"
SCORES = "Scores"
LESIONS = "Lesions"
REQUIREMENTS = "Requirements"
RUNNING = "Running"
MODEL = "A model that nnU-Net trained, in place of the folders"


@dataclass(frozen=True)
class Flag:
    """How the command line and a protocol have an option."""

    help: str  # its help
    panel: str | None = None  # the panel of the help; None for what everybody uses
    name: str = ""  # its name there, where that is not the field's
    least: int | None = None  # the least number that is allowed
    is_column: bool = False  # whether it names a column of the case table
    has_commas: bool = False  # whether it is given once, with commas between its entries
    short: str | None = None  # its short name, such as ``-f``

    def value(self, setting: Any) -> Any:
        """A value as protocols and summary.json have it.

        It is made of one of the command line, or of a field.
        """
        if isinstance(setting, str) and self.has_commas:
            names = [name.strip() for name in setting.split(",")]
            return [name for name in names if name]
        if isinstance(setting, Enum):
            return setting.value
        if isinstance(setting, tuple | list):
            return list(setting)
        return setting


@dataclass(frozen=True)
class Declared:
    """A field of a class of options: its name, its type, and how the command line has it."""

    field: str
    hint: Any
    flag: Flag


def declared(options: type) -> dict[str, Declared]:
    """The options of a class, by their names at the command line, in their order."""
    hints = get_type_hints(options, include_extras=True)

    entries = {}
    for field in fields(options):
        hint = hints[field.name]
        for entry in getattr(hint, "__metadata__", ()):
            if isinstance(entry, Flag):
                name = entry.name or field.name
                entries[name] = Declared(field.name, hint.__origin__, entry)
    return entries
