"""Reference computations with known results, in the user's own installation, and the record of them.

The label maps are a cube of 4 x 4 x 4 voxels of 1 x 1 x 2 mm, and the same cube one voxel further
along the long side of the voxels (2 mm). Its surface has 64 - 8 = 56 voxels. Of those of the
shifted cube, the 16 of the face that sticks out are 2 mm from the surface of the other; the 4 in
the middle of the opposite face are inside of it, 1 mm from its side; the other 36 are on it.
"""

import hashlib
import json
import math
import platform
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pandas as pd

import nnunet_dro
from nnunet_dro.evaluation import evaluate
from nnunet_dro.evaluation.statistics.sample_bounds import bound_ranks
from nnunet_dro.evaluation.statistics.significance import holm, wilcoxon_p
from nnunet_dro.evaluation.statistics.stratum_statistics import describe
from nnunet_dro.files.output_folder import replacing
from nnunet_dro.sampling.divergences import effective_cases, kl_probabilities, kl_robust_loss
from nnunet_dro.sampling.uncertainty_sets import cvar_probabilities, kl_ball_beta

TOLERANCE = 1e-9  # Largest difference that rounding explains, relative to numbers above 1.

_PACKAGES = ("nnunetv2", "torch", "numpy", "scipy", "pandas", "SimpleITK")
_METRICS = ("dice", "iou", "sensitivity", "precision", "hd", "hd95", "hd95_pooled", "assd", "nsd")
_SPACING = (1.0, 1.0, 2.0)


@dataclass(frozen=True)
class Number:
    """A number with a known value."""

    part: str  # the part of the package that computes it
    name: str
    expected: float  # its value by hand; NaN if it is undefined
    found: float  # its value in this installation

    @property
    def agrees(self) -> bool:
        """Whether both are the same, but for rounding."""
        if math.isnan(self.expected) or math.isnan(self.found):
            return math.isnan(self.expected) and math.isnan(self.found)
        return abs(self.expected - self.found) <= TOLERANCE * max(1.0, abs(self.expected))


def _scores() -> Iterator[Number]:
    scores = _evaluated("undefined")
    shifted = dict(
        zip(_METRICS, (48 / 64, 48 / 80, 48 / 64, 48 / 64, 2, 2, 2, 36 / 56, 40 / 56), strict=True)
    )
    for metric, expected in shifted.items():
        yield Number(
            "scores",
            f"{metric} of a cube and the same cube 2 mm away",
            expected,
            scores["shifted"][metric],
        )
    for metric in ("dice", "hd95"):
        name = f"{metric} of a label that is in neither map"
        yield Number("scores", name, math.nan, scores["absent"][metric])
    yield Number("scores", "dice of a label that was missed", 0, scores["missed"]["dice"])
    yield Number("scores", "hd95 of a label that was missed", math.nan, scores["missed"]["hd95"])
    for rule, expected in (("brats", 374.0), ("diagonal", math.hypot(11, 11, 22))):
        found = _evaluated(rule)["missed"]["hd95"]
        yield Number(
            "scores", f"hd95 of a label that was missed, --empty {rule}, mm", expected, found
        )


def _evaluated(empty: str) -> dict[str, dict[str, float]]:
    """The scores of each case, from files, as the command computes them."""
    import SimpleITK

    nothing, cube, moved = (np.zeros((12, 12, 12), np.uint8) for _ in range(3))
    cube[4:8, 4:8, 4:8] = moved[5:9, 4:8, 4:8] = 1
    pairs = {"shifted": (cube, moved), "missed": (cube, nothing), "absent": (nothing, nothing)}
    with tempfile.TemporaryDirectory() as folder:
        for side, name in enumerate(("reference", "prediction")):
            (Path(folder) / name).mkdir()
            for case, maps in pairs.items():
                image = SimpleITK.GetImageFromArray(maps[side])
                image.SetSpacing(_SPACING)
                SimpleITK.WriteImage(image, str(Path(folder) / name / f"{case}.nii.gz"))
        places = Path(folder) / "reference", Path(folder) / "prediction"
        table: pd.DataFrame = evaluate(*places, metrics=_METRICS, empty=empty, n_resamples=0).scores
    return {str(row["case"]): row for row in table.to_dict("records")}  # type: ignore[misc]


def _statistics() -> Iterator[Number]:
    found = describe(np.arange(101) / 100)
    expected = {"mean": 0.5, "median": 0.5, "p25": 0.25, "p10": 0.1, "p5": 0.05, "iqr": 0.5}
    expected["std"] = math.sqrt(101 * 102 / 12) / 100
    for name, value in expected.items():
        yield Number("statistics", f"{name} of 0, 0.01, ..., 1", value, found[name])


def _bounds() -> Iterator[Number]:
    # 0.95^58 = 0.051 and 0.95^59 = 0.048: only then the smallest of the values is a lower bound.
    for n, expected in ((58, 0), (59, 1), (93, 2), (124, 3), (153, 4)):
        name = f"rank of the lower 95 % bound of the 5th percentile, {n} values"
        yield Number("intervals", name, expected, bound_ranks(n, 5, tail=0.05)[0])
    # P(B <= 5) = 21700 / 2^20 = 0.0207 and P(B <= 6) = 0.0577, with B ~ Binomial(20, 1/2).
    for end, expected in enumerate((6, 15)):
        name = f"rank of the {('lower', 'upper')[end]} 97.5 % bound of the median, 20 values"
        yield Number("intervals", name, expected, bound_ranks(20, 50, tail=0.025)[end])


def _tests() -> Iterator[Number]:
    yield Number(
        "tests", "Wilcoxon's p of six differences above 0", 2 / 2**6, wilcoxon_p(np.arange(1.0, 7))
    )
    corrected = holm(np.array([0.01, 0.04, 0.03]))
    for given, expected, found in zip(
        (0.01, 0.04, 0.03), (0.03, 0.06, 0.06), corrected, strict=True
    ):
        yield Number("tests", f"p = {given} of three, corrected by Holm", expected, float(found))


def _sampling() -> Iterator[Number]:
    two = np.array([0.0, 1.0])
    probabilities = kl_probabilities(two, beta=math.log(3))
    yield Number(
        "sampling",
        "probability of the harder of two cases, beta = ln 3",
        3 / 4,
        float(probabilities[1]),
    )
    expected = math.log((1 + 3) / 2) / math.log(3)
    found = kl_robust_loss(two, beta=math.log(3))
    yield Number("sampling", "robust loss of losses 0 and 1, beta = ln 3", expected, found)
    four = cvar_probabilities(np.arange(4.0), alpha=0.5)
    yield Number(
        "sampling", "probability of the second hardest of four cases, cvar 0.5", 0.5, float(four[2])
    )
    losses = np.linspace(0, 1, 50)
    effective = effective_cases(kl_probabilities(losses, beta=kl_ball_beta(losses, share=0.5)))
    yield Number("sampling", "effective cases of 50 with a share of 0.5", 25, effective)


@dataclass(frozen=True)
class SelfcheckRecord:
    """What was computed, and in which installation."""

    numbers: tuple[Number, ...]  # every number, expected and found
    versions: dict[str, str]  # of Python, of this package and of what it computes with
    sha256: str  # of the files of this package, as they are installed
    system: str  # operating system and processor
    time: str  # when, in UTC

    @property
    def agrees(self) -> bool:
        """Whether every number is the expected one."""
        return all(number.agrees for number in self.numbers)

    def lines(self) -> list[str]:
        """The record as text, a line per number."""

        def shown(number: float) -> str:
            return "undefined" if number != number else f"{number:.9g}"

        table = [
            f"  {'ok    ' if n.agrees else 'WRONG '}{n.part:<12}{shown(n.expected):>14}{shown(n.found):>14}  {n.name}"
            for n in self.numbers
        ]
        n_wrong = sum(not number.agrees for number in self.numbers)
        verdict = f"{len(self.numbers)} numbers, " + (
            f"{n_wrong} not as expected." if n_wrong else "all as expected."
        )
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
            number |= {
                key: None if number[key] != number[key] else number[key]
                for key in ("expected", "found")
            }
        with replacing(path) as partial:
            partial.write_text(
                json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8"
            )


def selfcheck() -> SelfcheckRecord:
    """Compute the reference numbers in this installation."""
    return SelfcheckRecord(
        numbers=(*_scores(), *_statistics(), *_bounds(), *_tests(), *_sampling()),
        versions={
            "nnunet-dro": nnunet_dro.__version__,
            "Python": platform.python_version(),
            **_versions(),
        },
        sha256=installed_sha256(Path(nnunet_dro.__file__).parent),
        system=f"{platform.system()} {platform.machine()}",
        time=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def installed_sha256(package: Path) -> str:
    """SHA-256 over names and contents of the files of a package, in the order of their names.

    No compiled files.
    """
    digest = hashlib.sha256()
    for path in sorted(
        path
        for path in package.rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".pyo")
    ):
        name = path.relative_to(package).as_posix().encode()
        content = path.read_bytes()
        digest.update(b"%d %d " % (len(name), len(content)) + name + content)
    return digest.hexdigest()


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
