"""Reference computations with known results, and the record of them.

They run in the user's own installation.

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
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import numpy.typing as npt
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
_SPACING = (1.0, 1.0, 2.0)

#: The scores of the cube and the shifted cube, counted by hand (see the head of this module).
_SCORES_OF_SHIFTED = {
    "dice": 48 / 64,
    "iou": 48 / 80,
    "sensitivity": 48 / 64,
    "precision": 48 / 64,
    "hd": 2,
    "hd95": 2,
    "hd95_pooled": 2,
    "assd": 36 / 56,
    "nsd": 40 / 56,
}


@dataclass(frozen=True)
class Number:
    """A number with a known value."""

    part: str  # the part of the package that computes it
    name: str
    expected: float  # its value by hand; NaN if it is undefined
    computed: float  # its value in this installation

    @property
    def agrees(self) -> bool:
        """Whether both are the same, but for rounding."""
        if math.isnan(self.expected):
            return math.isnan(self.computed)
        difference = abs(self.expected - self.computed)
        return difference <= TOLERANCE * max(1.0, abs(self.expected))

    def line(self) -> str:
        """The number as a line of a table."""
        verdict = "ok" if self.agrees else "WRONG"
        expected = _shown(self.expected)
        computed = _shown(self.computed)
        return f"  {verdict:<6}{self.part:<12}{expected:>14}{computed:>14}  {self.name}"

    def entry(self) -> dict[str, str | float | None]:
        """The number as an entry of the record's JSON, which has no NaN."""
        return {
            "part": self.part,
            "name": self.name,
            "expected": _without_nan(self.expected),
            "found": _without_nan(self.computed),
        }


def _shown(number: float) -> str:
    return "undefined" if math.isnan(number) else f"{number:.9g}"


def _without_nan(number: float) -> float | None:
    return None if math.isnan(number) else number


def _scores() -> Iterator[Number]:
    scores = _evaluated("undefined")
    for metric, expected in _SCORES_OF_SHIFTED.items():
        name = f"{metric} of a cube and the same cube 2 mm away"
        yield Number("scores", name, expected, scores["shifted"][metric])

    for metric in ("dice", "hd95"):
        name = f"{metric} of a label that is in neither map"
        yield Number("scores", name, math.nan, scores["absent"][metric])

    missed = scores["missed"]
    yield Number("scores", "dice of a label that was missed", 0, missed["dice"])
    yield Number("scores", "hd95 of a label that was missed", math.nan, missed["hd95"])
    for rule, expected in (("brats", 374.0), ("diagonal", math.hypot(11, 11, 22))):
        name = f"hd95 of a label that was missed, --empty {rule}, mm"
        missed = _evaluated(rule)["missed"]
        yield Number("scores", name, expected, missed["hd95"])


def _evaluated(empty: str) -> dict[str, dict[str, float]]:
    """The scores of each case, from files, as the command computes them."""
    nothing = np.zeros((12, 12, 12), np.uint8)
    cube = nothing.copy()
    cube[4:8, 4:8, 4:8] = 1
    shifted = nothing.copy()
    shifted[5:9, 4:8, 4:8] = 1
    pairs = {"shifted": (cube, shifted), "missed": (cube, nothing), "absent": (nothing, nothing)}

    with tempfile.TemporaryDirectory() as folder:
        references = Path(folder) / "reference"
        predictions = Path(folder) / "prediction"
        references.mkdir()
        predictions.mkdir()
        for case, (reference, prediction) in pairs.items():
            _write_label_map(reference, references / f"{case}.nii.gz")
            _write_label_map(prediction, predictions / f"{case}.nii.gz")
        table: pd.DataFrame = evaluate(
            references,
            predictions,
            metrics=tuple(_SCORES_OF_SHIFTED),
            empty=empty,
            n_resamples=0,
        ).scores
    return {str(row["case"]): row for row in table.to_dict("records")}  # type: ignore[misc]


def _write_label_map(voxels: npt.NDArray[np.uint8], path: Path) -> None:
    import SimpleITK

    image = SimpleITK.GetImageFromArray(voxels)
    image.SetSpacing(_SPACING)
    SimpleITK.WriteImage(image, str(path))


def _statistics() -> Iterator[Number]:
    # The sample variance of 0, 1, ..., n - 1 is n (n + 1) / 12 (its denominator is n - 1).
    expected = {
        "mean": 0.5,
        "median": 0.5,
        "p25": 0.25,
        "p10": 0.1,
        "p5": 0.05,
        "iqr": 0.5,
        "std": math.sqrt(101 * 102 / 12) / 100,
    }
    statistics = describe(np.arange(101) / 100)
    for name, value in expected.items():
        yield Number("statistics", f"{name} of 0, 0.01, ..., 1", value, statistics[name])


def _bounds() -> Iterator[Number]:
    # 0.95^58 = 0.051 and 0.95^59 = 0.048: only then the smallest of the values is a lower bound.
    for n, expected in ((58, 0), (59, 1), (93, 2), (124, 3), (153, 4)):
        name = f"rank of the lower 95 % bound of the 5th percentile, {n} values"
        lower, _ = bound_ranks(n, 5, tail=0.05)
        yield Number("intervals", name, expected, lower)

    # P(B <= 5) = 21700 / 2^20 = 0.0207 and P(B <= 6) = 0.0577, with B ~ Binomial(20, 1/2).
    lower, upper = bound_ranks(20, 50, tail=0.025)
    for end, expected, rank in (("lower", 6, lower), ("upper", 15, upper)):
        name = f"rank of the {end} 97.5 % bound of the median, 20 values"
        yield Number("intervals", name, expected, rank)


def _tests() -> Iterator[Number]:
    p = wilcoxon_p(np.arange(1.0, 7))
    yield Number("tests", "Wilcoxon's p of six differences above 0", 2 / 2**6, p)

    p_values = (0.01, 0.04, 0.03)
    corrected = holm(np.array(p_values))
    for p, expected, corrected_p in zip(p_values, (0.03, 0.06, 0.06), corrected, strict=True):
        name = f"p = {p} of three, corrected by Holm"
        yield Number("tests", name, expected, float(corrected_p))


def _sampling() -> Iterator[Number]:
    # With beta = ln 3, the case with a loss larger by 1 is drawn three times as often.
    beta = math.log(3)
    two_losses = np.array([0.0, 1.0])
    harder = float(kl_probabilities(two_losses, beta=beta)[1])
    yield Number("sampling", "probability of the harder of two cases, beta = ln 3", 3 / 4, harder)
    yield Number(
        "sampling",
        "robust loss of losses 0 and 1, beta = ln 3",
        math.log((1 + 3) / 2) / math.log(3),
        kl_robust_loss(two_losses, beta=beta),
    )

    second_hardest = float(cvar_probabilities(np.arange(4.0), alpha=0.5)[2])
    name = "probability of the second hardest of four cases, cvar 0.5"
    yield Number("sampling", name, 0.5, second_hardest)

    losses = np.linspace(0, 1, 50)
    probabilities = kl_probabilities(losses, beta=kl_ball_beta(losses, share=0.5))
    name = "effective cases of 50 with a share of 0.5"
    yield Number("sampling", name, 25, effective_cases(probabilities))


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

    def lines(self) -> list[str]:
        """The record as text, a line per number."""
        verdict = "all as expected"
        if not self.agrees:
            verdict = f"{sum(not number.agrees for number in self.numbers)} not as expected"
        return [
            f"Self-check of nnunet-dro {self.versions['nnunet-dro']}, {self.time}, {self.system}",
            ", ".join(f"{name} {version}" for name, version in self.versions.items()),
            f"SHA-256 of the installed files of nnunet-dro: {self.sha256}",
            "",
            f"  {'':<6}{'part':<12}{'expected':>14}{'found':>14}  number",
            *(number.line() for number in self.numbers),
            "",
            f"{len(self.numbers)} numbers, {verdict}.",
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
        with replacing(path) as partial:
            partial.write_text(self.json_text(), encoding="utf-8")


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


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return versions
