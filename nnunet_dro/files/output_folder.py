"""What a command writes: checked before long work, and written whole or not at all."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nnunet_dro.files.json_file import read_json

#: So many characters of a text are encoded at a time.
_PART = 1 << 22


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write to a temporary file that replaces ``path`` once it is complete.

    It lies in the same folder and has the same suffix. Where the process is killed meanwhile, an
    error is raised, or nothing is written, ``path`` stays as it was.
    """
    path = Path(path)
    partial = path.with_name(f"{path.stem}.partial{path.suffix}")
    partial.unlink(missing_ok=True)  # of a process that was killed
    try:
        with _naming(path):
            yield partial
            if partial.exists():
                with partial.open("r+b") as file:
                    os.fsync(file.fileno())
                partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Say which file could not be written, as on a full disk: errors of open files do not."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def check_output(
    folder: Path,
    *,
    overwrite: bool | None,
    inputs: Collection[str | os.PathLike[str]] = (),
    kinds: Collection[str] = (),
    name: str = "output",
) -> None:
    """Check, before long work, that results can be written to a folder.

    The folder must be new or empty. With ``overwrite``, it may also hold the results of an earlier
    run, of one of the ``kinds``, but must be none of the ``inputs``. ``overwrite`` is None where
    the command has no option --overwrite that a message could name.
    """
    check_writable(folder, name=name, cure="Name another folder.")
    if not (folder.is_dir() and any(folder.iterdir())):
        return
    if not overwrite:
        cure = "Name another."
        if overwrite is not None:
            cure = "Name another, or give --overwrite to replace what an earlier run wrote."
        raise FileExistsError(
            f"`{name}` must be a new or empty folder, got {str(folder)!r}, which holds files. "
            f"{cure}"
        )

    if folder.resolve() in [Path(path).resolve() for path in inputs]:
        raise ValueError(
            f"`{name}` must not be the folder of an input, got {str(folder)!r}. Name another."
        )
    if not _holds_results(folder, kinds):
        raise FileExistsError(
            f"`{name}` must have the {' or '.join(kinds)} of an earlier run to overwrite, got "
            f"{str(folder)!r}, which holds other files. Name another."
        )


def _holds_results(folder: Path, kinds: Collection[str]) -> bool:
    """Whether a folder has a summary of this package's, of one of the kinds.

    A run replaces the files of its own kind only, and others would seem to be part of its results.
    """
    try:
        written_as = str(read_json(folder / "summary.json")["format"])
    except (OSError, ValueError, LookupError, TypeError):
        return False
    return written_as.startswith(tuple(f"nnunet-dro {kind} " for kind in kinds))


def check_writable(
    folder: Path,
    *,
    name: str = "nnUNet_results",
    cure: str = "Set nnUNet_results to a folder that you may write to.",
) -> None:
    """Check, before long work, that a folder can be written to, or made."""
    path = folder.absolute()
    existing = next(parent for parent in (path, *path.parents) if parent.exists())

    if not existing.is_dir():
        raise NotADirectoryError(
            f"`{name}` must be a folder, got the file {str(existing)!r}. {cure}"
        )
    if not _takes_files(existing):
        raise PermissionError(f"`{name}` must be writable, got {str(existing)!r}. {cure}")


def _takes_files(folder: Path) -> bool:
    """Whether files can be made in a folder, found by trying: root has the right to in /proc."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def check_new_file(
    path: Path, *, overwrite: bool, name: str = "output", option: str = "--overwrite"
) -> None:
    """Check, before long work, that a file can be written.

    It is new or may be replaced, and its folder exists.
    """
    if path.is_dir() or (path.exists() and not overwrite):
        cure = "Name another."
        if not path.is_dir():
            cure = f"Name another, or give {option} to replace it."
        raise FileExistsError(
            f"`{name}` must be a new file, got {str(path)!r}, which exists. {cure}"
        )

    folder = path.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"`{name}` must be in an existing folder, got {str(path)!r}. Make the folder, or name "
            "another."
        )
    check_writable(folder, name=name, cure="Name a file in another folder.")


def write_files(
    folder: Path, files: Mapping[str, str], *, outdated: Collection[str] = ()
) -> list[str]:
    """Write files into a folder, all of them or none.

    A new folder appears with all of them, and an old one gets them once all are written. Files of
    an earlier run that would contradict them (``outdated``) are deleted from it.

    Returns:
        The names of the files that were deleted.
    """
    folder = folder.absolute()
    # An empty folder is kept, too: it may be a mount point, or the working directory of the shell.
    if not folder.is_dir():
        _write_new_folder(folder, files)
        return []

    with ExitStack() as stack:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            _write(stack.enter_context(replacing(folder / name)), content)
    deleted = [name for name in outdated if name not in files and (folder / name).is_file()]
    for name in deleted:
        (folder / name).unlink()
    return deleted


def _write_new_folder(folder: Path, files: Mapping[str, str]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".", suffix=".partial", dir=folder.parent))
    try:
        # One folder further down, because temporary folders are readable by their owner only.
        (partial / folder.name).mkdir()
        for name, content in files.items():
            path = partial / folder.name / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with _naming(folder / name):
                _write(path, content)
        (partial / folder.name).rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(path: Path, content: str) -> None:
    with path.open("wb") as file:
        file.writelines(utf8_parts(content))


def sha256_of_text(content: str) -> str:
    """SHA-256, in hexadecimal digits, of a file that `write_files` writes."""
    digest = hashlib.sha256()
    for part in utf8_parts(content):
        digest.update(part)
    return digest.hexdigest()


def utf8_parts(content: str) -> Iterator[bytes]:
    """A text in UTF-8, part by part: all at once, a large table would be in memory twice.

    File names that are not UTF-8 come as surrogates, which become the original bytes.
    """
    for start in range(0, len(content), _PART):
        yield content[start : start + _PART].encode("utf-8", "surrogateescape")
