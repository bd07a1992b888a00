"""The manifest of an evidence pack: the SHA-256 of every file in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from nnunet_dro import __version__
from nnunet_dro.bad_input import InputError, bad_input
from nnunet_dro.evaluation.scoring.score_files import sha256_of
from nnunet_dro.files.json_file import json_text, read_json
from nnunet_dro.files.output_folder import sha256_of_text
from nnunet_dro.naming import name_some

MANIFEST = "manifest.json"

#: The name of the format of the manifest; its number changes with the format.
FORMAT = "nnunet-dro evidence 1"


@dataclass(frozen=True)
class Manifest:
    """What the manifest of a pack says."""

    time: str  # date and time of the pack
    version: str  # of nnunet-dro, which wrote it
    sha256: Mapping[str, str]  # of each file, by its name


def now() -> str:
    """Date and time in UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def with_manifest(files: Mapping[str, str], *, time: str) -> dict[str, str]:
    """The files of a pack, name to content, with their manifest as the last one."""
    manifest = {
        "format": FORMAT,
        "time": time,
        "nnunet-dro": __version__,
        "files": {name: sha256_of_text(content) for name, content in sorted(files.items())},
    }
    return {**files, MANIFEST: json_text(manifest)}


def check_manifest(folder: Path) -> Manifest:
    """Check that every file of a pack is as it was written, and that there is no other.

    Returns:
        The manifest, which does not count itself.

    Raises:
        FileNotFoundError: If the folder has no manifest.
        ValueError: If the manifest is none, or a file was altered, is missing or was added; the
            message names them.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise FileNotFoundError(
            bad_input(
                "evaluation",
                must=f"be a pack with a {MANIFEST}",
                got=repr(str(folder)),
                cure="Give the folder that `nnunet-dro report --pack` wrote.",
            )
        )

    manifest = _read_manifest(path)
    differences = _differences(folder, manifest.sha256)
    parts = [f"{word} {name_some(names)}" for word, names in differences.items() if names]
    if parts:
        raise InputError(
            "evaluation",
            must="be a pack as it was written",
            got=f"{'; '.join(parts)} in {str(folder)!r}",
            cure="Restore the pack from where it is kept, or write another.",
        )
    return manifest


def _differences(folder: Path, sha256: Mapping[str, str]) -> dict[str, list[str]]:
    """The names of the files of a pack that are ``altered``, ``missing`` and ``added``."""
    differences: dict[str, list[str]] = {"altered": [], "missing": [], "added": []}
    for name, digest in sha256.items():
        file = folder / name
        if not file.is_file():
            differences["missing"].append(name)
        elif sha256_of(file) != digest:
            differences["altered"].append(name)

    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if not file.is_dir() and name not in sha256 and name != MANIFEST:
            differences["added"].append(name)
    return differences


def _read_manifest(path: Path) -> Manifest:
    try:
        content = read_json(path)
        if content["format"] != FORMAT:
            raise ValueError(content["format"])
        sha256 = {str(name): str(digest) for name, digest in content["files"].items()}
        return Manifest(str(content["time"]), str(content["nnunet-dro"]), sha256)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            "evaluation",
            must=f"have a manifest of format {FORMAT!r}",
            got=f"{str(path)!r}, which is none",
            cure="Restore it, or write another pack.",
        ) from error
