"""The record of a self-check: what was computed, and in which installation."""

import hashlib
import json
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import nnunet_dro
from nnunet_dro.files.output_folder import write_files
from nnunet_dro.selfcheck.differences import differences
from nnunet_dro.selfcheck.number import Number
from nnunet_dro.selfcheck.sampling import sampling
from nnunet_dro.selfcheck.scores import scores
from nnunet_dro.selfcheck.statistics import statistics
from nnunet_dro.selfcheck.verdicts import verdicts

_PACKAGES = ("nnunetv2", "torch", "numpy", "scipy", "pandas", "SimpleITK")

#: What computes the numbers, in the order of the record.
PARTS: tuple[Callable[[], Iterator[Number]], ...] = (
    scores,
    statistics,
    differences,
    verdicts,
    sampling,
)


@dataclass(frozen=True)
class SelfcheckRecord:
    """What was computed, and in which installation."""

    numbers: tuple[Number, ...]  # every number, expected and computed
    versions: dict[str, str]  # of Python, of this package and of what it computes with
    sha256: str  # of the files of this package, as they are installed
    system: str  # operating system and processor
    time: str  # when, in UTC

    @property
    def agrees(self) -> bool:
        """Whether every number is the expected one."""
        return all(number.agrees for number in self.numbers)

    @property
    def verdict(self) -> str:
        """How many numbers there are, and how many of them are not the expected ones."""
        n_wrong = sum(not number.agrees for number in self.numbers)
        words = f"{n_wrong} not as expected" if n_wrong else "all as expected"
        return f"{len(self.numbers)} numbers, {words}"

    def lines(self) -> list[str]:
        """The record as text, a line per number."""
        return [
            f"Self-check of nnunet-dro {self.versions['nnunet-dro']}, {self.time}, {self.system}",
            ", ".join(f"{name} {version}" for name, version in self.versions.items()),
            f"SHA-256 of the installed files of nnunet-dro: {self.sha256}",
            "",
            f"  {'':<6}{'part':<12} {'expected':>14} {'found':>14}  number",
            *(number.line() for number in self.numbers),
            "",
            f"{self.verdict}.",
        ]

    def json_text(self) -> str:
        """The record as JSON."""
        content = {
            "numbers": [number.entry() for number in self.numbers],
            "versions": self.versions,
            "sha256": self.sha256,
            "system": self.system,
            "time": self.time,
            "agrees": self.agrees,
        }
        return json.dumps(content, indent=2, allow_nan=False) + "\n"

    def write(self, path: Path) -> None:
        """Write the record as JSON, whole or not at all."""
        write_files(path.parent, {path.name: self.json_text()})


def selfcheck() -> SelfcheckRecord:
    """Compute the reference numbers in this installation."""
    return SelfcheckRecord(
        numbers=tuple(number for part in PARTS for number in part()),
        versions={
            "nnunet-dro": nnunet_dro.__version__,
            "Python": platform.python_version(),
            **{package: version(package) for package in _PACKAGES},
        },
        sha256=installed_sha256(Path(nnunet_dro.__file__).parent),
        system=f"{platform.system()} {platform.machine()}",
        time=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def installed_sha256(package: Path) -> str:
    """SHA-256 over names and contents of the files of a package, in the order of their names.

    Compiled files do not count. The lengths stand before name and content, so that no byte can
    move from one to the other unnoticed.
    """
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if not path.is_file() or path.suffix in (".pyc", ".pyo"):
            continue
        name = path.relative_to(package).as_posix().encode()
        content = path.read_bytes()
        digest.update(b"%d %d " % (len(name), len(content)))
        digest.update(name)
        digest.update(content)
    return digest.hexdigest()
