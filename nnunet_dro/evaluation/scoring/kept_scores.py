"""The scores of the cases that a run has finished.

They are kept in a file until the run ends, so that another run can go on.
"""

import hashlib
import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from nnunet_dro import __version__
from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.evaluation.scoring.score_files import ScoredPair
from nnunet_dro.evaluation.scoring.scoring import Scoring

_FORMAT = "nnunet-dro scored cases 1"

#: A run that a mistake in the input, or its user, ends earlier than this is quickly made again, and
#: leaves nothing behind, seconds.
_WORTH_KEEPING_S = 60.0

_ADVICE = "The cases that were scored are kept: run it again with --resume."


@dataclass
class KeptScores:
    """The finished cases of a run, in a file.

    With ``resume``, what an earlier run left there is used.

    A line is written with one call, so that a run that is killed leaves at most one line cut short;
    that is cut off when another run goes on.
    """

    path: Path
    resume: bool = False
    _first_line: bytes = field(default=b"", repr=False)  # of a new file
    _gave_up: bool = field(default=False, repr=False)
    _file: BinaryIO | None = field(default=None, repr=False)
    _made: list[Path] = field(default_factory=list, repr=False)

    def known(self, labels: Labels | None, scoring: Scoring) -> dict[str, ScoredPair]:
        """The cases that an earlier run with the same options has finished, by name."""
        first_line = _line({"format": _FORMAT, "options": _digest(labels, scoring)})
        cases = _read(self.path, first_line) if self.resume else {}
        self._first_line = b"" if cases else first_line
        return cases

    def add(self, scored: ScoredPair) -> None:
        """Write a finished case; `known` is called before.

        Where that is not possible, no case is kept.
        """
        if self._gave_up:
            return

        try:
            if self._file is None:
                self._file = self._open()
            self._file.write(_line(asdict(scored)))
        except OSError as error:
            self._gave_up = True
            logging.getLogger(__name__).warning("Finished cases are not kept: %s", error)

    def _open(self) -> BinaryIO:
        """Open the file and note which folders are made for it.

        It begins anew unless cases of an earlier run are in it.
        """
        parent = self.path.parent
        self._made = [folder for folder in (parent, *parent.parents) if not folder.exists()]
        parent.mkdir(parents=True, exist_ok=True)

        file = self.path.open("wb" if self._first_line else "ab", buffering=0)
        file.write(self._first_line)
        return file

    def close(self) -> None:
        """Close the file, which stays."""
        if self._file is not None:
            self._file.close()

    def remove(self) -> None:
        """Remove the file, and the folders that were made for it and hold nothing else."""
        self.close()
        if self._file is not None or self.resume:
            self.path.unlink(missing_ok=True)
        for folder in self._made:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


@contextmanager
def keeping(path: Path, *, resume: bool) -> Iterator[KeptScores]:
    """Keep the scores of finished cases in a file until the results are written.

    At the end the file is removed. It is also removed where a run that resumes nothing ends within
    its first minute because the input was wrong or its user interrupted it. It stays if the process
    is killed.

    Raises:
        KeyboardInterrupt, ValueError, FileNotFoundError, PermissionError: As raised inside, with
            the advice to resume where the file stays.
    """
    kept = KeptScores(path, resume)
    started = time.monotonic()
    try:
        yield kept
    except BaseException as error:
        is_quick = time.monotonic() - started < _WORTH_KEEPING_S and not resume
        if is_quick and isinstance(error, Exception | KeyboardInterrupt):
            kept.remove()
        kept.close()

        if not path.exists():
            raise
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(f"interrupted. {_ADVICE}") from error
        for kind in (ValueError, FileNotFoundError, PermissionError):
            if type(error) in (kind, InputError):
                raise kind(f"{error} {_ADVICE}") from error
        raise
    kept.remove()


def _read(path: Path, first_line: bytes) -> dict[str, ScoredPair]:
    """The cases that a run with this first line left.

    A line that was cut short at the end is cut off.
    """
    if not path.is_file():
        return {}

    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if not whole.startswith(first_line):
        return {}
    if len(whole) < len(content):
        with path.open("r+b") as file:
            file.truncate(len(whole))

    cases = {}
    for line in whole.removeprefix(first_line).splitlines():
        scored = _scored_pair(line)
        if scored is not None:
            cases[scored.case] = scored
    return cases


def _scored_pair(line: bytes) -> ScoredPair | None:
    """The scores of a case from a line of the file; None where they are not whole."""
    try:
        entry = json.loads(line)
        # JSON has no tuples.
        entry["reference_values"] = tuple(entry["reference_values"])
        entry["sha256"] = tuple(entry["sha256"])
        return ScoredPair(**entry)
    except (ValueError, KeyError, TypeError):
        return None


def _line(entry: Mapping[str, Any]) -> bytes:
    """An entry as a line of JSON.

    In ASCII, because then names of files that are not UTF-8 survive as escapes.
    """
    return json.dumps(entry).encode("ascii") + b"\n"


def _digest(labels: Labels | None, scoring: Scoring) -> str:
    """SHA-256 of everything but the files that scores depend on."""
    parts = {
        "version": __version__,
        "labels": labels and asdict(labels),
        "scoring": asdict(scoring),
    }
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()
