"""The folders that the words of a command name: ``NAME=FOLDER``."""

from pathlib import Path

from nnunet_dro.bad_input import InputError
from nnunet_dro.naming import name_some


def named_evaluations(folders: list[str]) -> dict[str, Path]:
    """Methods and their folders, from ``NAME=FOLDER``."""
    named: dict[str, Path] = {}
    for entry in folders:
        name, separator, folder = entry.partition("=")
        if not separator or not name.strip() or not folder:
            raise InputError(
                "evaluations",
                must="be NAME=FOLDER",
                got=repr(entry),
                cure="Write, for example, plain=results/plain.",
            )
        if name in named:
            raise InputError(
                "evaluations",
                must="have different names",
                got=f"{name_some([name])} twice",
                cure="Rename one.",
            )
        named[name] = Path(folder)
    return named


def named_trainings(entries: list[str]) -> dict[str, list[Path]]:
    """Methods and the folders of their trainings.

    From ``NAME=FOLDER``, or for several trainings ``NAME=FOLDER,FOLDER,FOLDER``.
    """
    return {name: _trainings(str(folders)) for name, folders in named_evaluations(entries).items()}


def _trainings(text: str) -> list[Path]:
    """The folders of trainings, which commas separate."""
    names = text.split(",")
    if len(names) > 1 and Path(text).is_dir():
        raise InputError(
            "evaluations",
            must="be folders without a comma in their names",
            got=repr(text),
            cure="A comma separates trainings. Rename the folder.",
        )
    if not all(name.strip() for name in names):
        raise InputError(
            "evaluations",
            must="name a folder between two commas",
            got=repr(text),
            cure="Write, for example, plain=seed0,seed1,seed2, without spaces.",
        )

    folders: list[Path] = []
    for name in names:
        folder = Path(name)
        if "=" in name and not folder.is_dir():
            raise InputError(
                "evaluations",
                must="be folders that exist",
                got=repr(name),
                cure=(
                    "The name ends at the first equals sign; a space goes between methods, "
                    "a comma between trainings."
                ),
            )
        if folder.resolve() in [other.resolve() for other in folders]:
            raise InputError(
                "evaluations",
                must="be different trainings",
                got=f"{name!r} twice",
                cure=("One training twice says nothing about others: name every training once."),
            )
        folders.append(folder)
    return folders
