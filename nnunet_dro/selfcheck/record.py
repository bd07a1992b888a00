"""The record of a self-check: where it ran, with what, and every number."""

import hashlib
import json
import platform
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import nnunet_dro
from nnunet_dro.files.atomic import replacing
from nnunet_dro.selfcheck.checks import Number, check_numbers

_PACKAGES = ("nnunetv2", "torch", "numpy", "scipy", "pandas", "SimpleITK")


@dataclass(frozen=True)
class SelfcheckRecord:
    """What was computed, and in which installation.

    Attributes:
        numbers: Every number, expected and found.
        versions: Of Python, of this package and of what it computes with.
        sha256: Of the files of this package, as they are installed.
        system: Operating system and processor.
        time: When, in UTC.
    """

    numbers: tuple[Number, ...]
    versions: dict[str, str]
    sha256: str
    system: str
    time: str

    @property
    def agrees(self) -> bool:
        """Whether every number is the expected one."""
        return all(number.agrees for number in self.numbers)

    def lines(self) -> list[str]:
        """The record as text, a line per number."""
        table = [
            f"  {'ok    ' if n.agrees else 'WRONG '}{n.part:<12}{_shown(n.expected):>14}{_shown(n.found):>14}  {n.name}"
            for n in self.numbers
        ]
        n_wrong = sum(not number.agrees for number in self.numbers)
        verdict = f"{len(self.numbers)} numbers, " + (f"{n_wrong} not as expected." if n_wrong else "all as expected.")
        return [
            f"Self-check of nnunet-dro {self.versions['nnunet-dro']}, {self.time}, {self.system}",
            ", ".join(f"{name} {number}" for name, number in self.versions.items()),
            f"SHA-256 of the installed files of nnunet-dro: {self.sha256}",
            "",
            f"  {'':<6}{'part':<12}{'expected':>14}{'found':>14}  number",
            *table,
            "",
            verdict,
        ]

    def write(self, path: Path) -> None:
        """Write the record as JSON, whole or not at all."""
        content = asdict(self) | {"agrees": self.agrees}
        for number in content["numbers"]:
            # JSON has no NaN.
            number |= {key: None if number[key] != number[key] else number[key] for key in ("expected", "found")}
        with replacing(path) as partial:
            partial.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def selfcheck() -> SelfcheckRecord:
    """Compute the reference numbers in this installation.

    Example:
        >>> selfcheck().agrees
        True
    """
    return SelfcheckRecord(
        numbers=tuple(check_numbers()),
        versions={"nnunet-dro": nnunet_dro.__version__, "Python": platform.python_version(), **_versions()},
        sha256=installed_sha256(Path(nnunet_dro.__file__).parent),
        system=f"{platform.system()} {platform.machine()}",
        time=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def installed_sha256(package: Path) -> str:
    """SHA-256 over names and contents of the files of a package, in the order of their names; no compiled files."""
    digest = hashlib.sha256()
    for path in sorted(path for path in package.rglob("*") if path.is_file() and path.suffix not in (".pyc", ".pyo")):
        name = path.relative_to(package).as_posix().encode()
        content = path.read_bytes()
        digest.update(b"%d %d " % (len(name), len(content)) + name + content)
    return digest.hexdigest()


def _shown(number: float) -> str:
    return "undefined" if number != number else f"{number:.9g}"


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
