"""How often both kinds of 95 % intervals contain the true value, and how wide they are.

The answers are simulated.

Samples of 6 to 500 cases are drawn from shapes of a fraction, of a distance, and of patients whose
number of cases depends on how bad they are. `to read` is what tables print, `guaranteed` is what
verdicts rest on, and `@95` is the one-sided bound of a requirement with confidence. Of the mean,
Student's t without a correction, the bootstrap of Student's t and the bounds of `mean_bounds.py`
were considered as well. In some shapes a rare failure decides, which most small samples do not
show.

    python -m benchmarks.coverage [--out FILE] [--samples 4000] [--docs]

It takes about 8 minutes on one core. `--docs` writes the table of docs/intervals.md from the file
instead.
"""

import argparse
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.mean_bounds import LOWER_BOUNDS, both_bounds
from nnunet_dro.evaluation.statistics.columns import PERCENTILES, STATISTICS
from nnunet_dro.evaluation.statistics.intervals import (
    TAIL,
    difference_intervals,
    guaranteed_means,
    intervals,
)
from nnunet_dro.evaluation.statistics.patients import patient_values
from nnunet_dro.evaluation.statistics.sample_bounds import mean_by_students_t, percentile_bounds

SIZES = (6, 8, 10, 20, 30, 50, 100, 200, 500)
N_RESAMPLES = 2000
#: The bootstrap is slow: it is tried on fewer samples.
N_SLOW = 1000
#: Values from which the true statistics are computed.
N_TRUE = 1 << 21
PAGE = Path(__file__).parents[1] / "docs" / "intervals.md"
RESULTS = Path(__file__).parent / "results" / "coverage.csv"
#: Shapes in the table of the docs: the easiest, and those that are hard in different ways.
SHOWN = (
    "Beta(8, 2)",
    "10 % at 0",
    "3 % fail",
    "1 % fail",
    "patients, 5 of 60 bad",
    "lognormal 1.3 (mm)",
    "1 % at 300 mm, against 2 %",
)
#: The shape of which the widths of all bounds of the mean stand in the docs.
WIDTHS_OF = "Dice of an organ"
BEGIN = "<!-- begin coverage -->\n"
END = "<!-- end coverage -->"

Draw = Callable[[np.random.Generator, tuple[int, int]], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Shape:
    """What values a baseline and a method have in the same cases.

    The statistics are those of the method.
    """

    draw: Draw
    bounded: bool = True

    @cached_property
    def truth(self) -> dict[str, float]:
        """The statistics of the distribution."""
        before, after = (
            values.ravel() for values in self.draw(np.random.default_rng(0), (N_TRUE // 64, 64))
        )
        statistics = {
            name: float(np.quantile(after, percent / 100)) for name, percent in PERCENTILES.items()
        }
        return statistics | {
            "mean": float(after.mean()),
            "difference of means": float((after - before).mean()),
        }


def better(before: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The method gains some of what the baseline lacks."""
    return before + (1 - before) * rng.beta(1, 4, before.shape)


def scores(draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray]) -> Draw:
    def both(rng: np.random.Generator, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        before = draw(rng, size)
        return before, better(before, rng)

    return both


def organ(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    """Most cases are near 0.9, one in twelve is anywhere, and one in fifty is missed."""
    chance = rng.random(size)
    values = np.where(chance < 0.9, rng.beta(40, 4, size), rng.beta(3, 2, size))
    return np.where(chance > 0.98, 0, values)


def failing(share: float) -> Draw:
    """The baseline never fails.

    The method scores 0 in some cases, and a point more in the others.
    """

    def both(rng: np.random.Generator, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        before = 0.99 * rng.beta(30, 5, size)
        return before, np.where(rng.random(size) < share, 0, before + 0.01)

    return both


def mixed(at: float, share: float, share_of_method: float) -> Draw:
    """Beta(8, 2), but for a share of the cases at one value: another share with the method."""

    def both(rng: np.random.Generator, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        before = rng.beta(8, 2, size)
        chance = rng.random(size)
        return np.where(chance < share, at, before), np.where(
            chance < share_of_method, at, better(before, rng)
        )

    return both


def distances(sigma: float, at: float = 0, share: float = 0, share_of_method: float = 0) -> Draw:
    """Lognormal, but for a share of the cases at one value: another share with the method."""

    def both(rng: np.random.Generator, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        before = rng.lognormal(0.7, sigma, size)
        chance = rng.random(size)
        after = before * rng.lognormal(-0.2, 0.3, size)
        return np.where(chance < share, at, before), np.where(
            rng.random(size) < share_of_method, at, after
        )

    return both


def patients(soft: bool) -> Draw:
    """Means of patients, of whom the bad ones have more cases."""

    def both(rng: np.random.Generator, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        n = size[0] * size[1]
        skill = rng.beta(6, 2, n) if soft else np.where(rng.random(n) < 5 / 60, 0.46, 0.947)
        n_cases = 1 + rng.binomial(8, 1 - skill) if soft else np.where(skill < 0.5, 6, 1)
        codes = np.repeat(np.arange(n), n_cases)
        before = np.clip(skill[codes] + rng.normal(0, 0.05, len(codes)), 0, 1)
        patients = (
            patient_values(values, codes).reshape(size) for values in (before, better(before, rng))
        )
        first, second = patients
        return second, first

    return both


SHAPES = {
    "Beta(8, 2)": Shape(scores(lambda rng, size: rng.beta(8, 2, size))),
    "Dice of an organ": Shape(scores(organ)),
    "uniform": Shape(scores(lambda rng, size: rng.random(size))),
    "25 % at 1": Shape(mixed(1, 0.1, 0.25)),
    "10 % at 0": Shape(mixed(0, 0.05, 0.1)),
    "3 % fail": Shape(failing(0.03)),
    "2 % fail": Shape(failing(0.02)),
    "1 % fail": Shape(failing(0.01)),
    "patients, soft": Shape(patients(soft=True)),
    "patients, 5 of 60 bad": Shape(patients(soft=False)),
    "lognormal 0.8 (mm)": Shape(distances(0.8), bounded=False),
    "lognormal 1.3 (mm)": Shape(distances(1.3), bounded=False),
    "1 % at 300 mm, against 2 %": Shape(distances(0.8, 300, 0.02, 0.01), bounded=False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="File to write.")
    parser.add_argument("--samples", type=int, default=4000, help="Samples of each shape and size.")
    parser.add_argument("--docs", action="store_true", help="Write the table of the docs instead.")
    arguments = parser.parse_args()
    if arguments.docs:
        PAGE.write_text(
            with_table(PAGE.read_text(encoding="utf-8"), pd.read_csv(arguments.out)),
            encoding="utf-8",
        )
        return
    rows: list[dict[str, object]] = []
    for name in SHAPES:
        for n in SIZES:
            rows += study(name, n, arguments.samples)
        print(f"{name}: done", flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).round(4).to_csv(arguments.out, index=False)


def study(name: str, n: int, n_samples: int) -> Iterator[dict[str, object]]:
    """A row per statistic and kind of interval."""
    rng = np.random.default_rng([n, zlib.crc32(name.encode())])
    shape = SHAPES[name]
    before, after = shape.draw(rng, (n_samples, n))
    bounded = [shape.bounded] * n_samples
    samples = list(after)
    read = dict(
        zip(STATISTICS, np.moveaxis(intervals(samples, bounded=bounded), 1, 0), strict=True)
    )
    changes = difference_intervals(list(zip(before, samples, strict=True)), bounded=bounded)
    bounds_of_methods = [
        (statistic, "to read", read[statistic]) for statistic in ("mean", *PERCENTILES)
    ]
    bounds_of_methods += [
        ("mean", "guaranteed", guaranteed_means(samples, bounded=bounded)),
        ("mean", "Student's t", mean_by_students_t(after, tail=TAIL)),
        ("mean", "bootstrap-t", mean_by_bootstrap_t(after[:N_SLOW], rng)),
        ("difference of means", "to read", changes[:, list(STATISTICS).index("mean")]),
        (
            "difference of means",
            "guaranteed",
            guaranteed_means(list(after - before), bounded=bounded, low=-1),
        ),
    ]
    if shape.bounded:
        bounds_of_methods += other_bounds(before, after)
    for statistic, percent in PERCENTILES.items():
        bounds_of_methods.append(
            (statistic, "@95", percentile_bounds(np.sort(after, axis=1), percent, tail=0.05))
        )
    for statistic, kind, bounds in bounds_of_methods:
        yield {"statistic": statistic, "kind": kind, "shape": name, "n": n} | held(
            bounds, shape.truth[statistic]
        )


def other_bounds(before: np.ndarray, after: np.ndarray) -> Iterator[tuple[str, str, np.ndarray]]:
    """Statistic, kind and bounds of all that assumes nothing and was not chosen."""
    for kind, find in LOWER_BOUNDS.items():
        yield "mean", kind, both_bounds(find, after, low=0, high=1, tail=TAIL)
        changes = both_bounds(find, after - before, low=-1, high=1, tail=TAIL)
        yield "difference of means", kind, changes


def mean_by_bootstrap_t(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, section 12.5."""
    n = samples.shape[1]
    weights = rng.multinomial(n, np.full(n, 1 / n), size=N_RESAMPLES) / n
    mean = samples.mean(axis=1, keepdims=True)
    error = samples.std(axis=1, ddof=1) / np.sqrt(n)
    first = weights @ (samples - mean).T
    second = weights @ ((samples - mean) ** 2).T
    spread = np.sqrt(np.maximum(second - first**2, 0) / (n - 1))
    ratios = np.divide(first, spread, out=np.zeros_like(first), where=spread > 1e-12)
    high, low = np.quantile(ratios, [TAIL, 1 - TAIL], axis=0)
    return mean - np.stack([low * error, high * error], axis=1)


def held(bounds: np.ndarray, value: float) -> dict[str, object]:
    """The samples with a bound, how often each is wrong and both hold, and the median width."""
    low, high = bounds.T
    printed = ~(np.isnan(low) & np.isnan(high))
    # What the true value is known to.
    slack = 1e-4 * max(abs(value), 1e-3)
    wrong = {"low_wrong": low > value + slack, "high_wrong": high < value - slack}
    width = (high - low)[~np.isnan(high - low)]
    shares = {
        name: float(is_wrong[printed].mean()) if printed.any() else None
        for name, is_wrong in wrong.items()
    }
    holds = ~(wrong["low_wrong"] | wrong["high_wrong"])
    return {
        "samples": int(printed.sum()),
        "coverage": float(holds[printed].mean()) if printed.any() else None,
        **shares,
        "width": float(np.median(width)) if len(width) else None,
    }


def with_table(page: str, rows: pd.DataFrame) -> str:
    """The page with its table of coverage made anew."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + markdown(rows) + END + rest.split(END)[1]


def markdown(rows: pd.DataFrame) -> str:
    """A line per shape shown.

    How often the intervals to read hold, and how often a bound for verdicts is wrong.
    """
    at = (20, 50, 200)
    heads = [f"{what}, to read: {'/'.join(map(str, at))}" for what in ("mean", "difference")]
    columns = ["shape", heads[0], "guaranteed", heads[1], "guaranteed", "`@95`"]
    lines = ["| " + " | ".join(columns) + " |", "| --- |" + " ---: |" * (len(columns) - 1)]
    for name in SHOWN:
        rows_of_shape = rows[rows["shape"] == name]
        cells = [name]
        for statistic in ("mean", "difference of means"):
            rows_by_kind = dict(
                list(rows_of_shape[rows_of_shape["statistic"] == statistic].groupby("kind"))
            )
            by_size = rows_by_kind["to read"].set_index("n")["coverage"]
            cells.append("/".join(f"{100 * by_size[n]:.0f}" for n in at) + " %")
            cells.append(_worst(rows_by_kind["guaranteed"]))
        cells.append(_worst(rows_of_shape[rows_of_shape["kind"] == "@95"]))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *_lines_of_bounds(rows)]) + "\n"


def _lines_of_bounds(rows: pd.DataFrame) -> Iterator[str]:
    """A line per kind of bound that assumes nothing: how often it is wrong, and how wide it is."""
    at = (8, 20, 50, 200)
    sizes = "/".join(map(str, at))
    yield f"| bounds of the mean | wrong at most | width: {sizes} | of a difference: {sizes} |"
    yield "| --- | ---: | ---: | ---: |"
    for kind in ("guaranteed", *LOWER_BOUNDS):
        rows_of_kind = rows[rows["kind"] == kind]
        cells = [kind, _worst(rows_of_kind)]
        for statistic in ("mean", "difference of means"):
            inside = rows_of_kind["statistic"] == statistic
            inside &= rows_of_kind["shape"] == WIDTHS_OF
            widths = rows_of_kind[inside].set_index("n")["width"]
            cells.append("/".join(f"{100 * widths[n]:.0f}" for n in at))
        yield "| " + " | ".join(cells) + " |"


def _worst(rows: pd.DataFrame) -> str:
    """The bound that is wrong most often, over all sizes and both ends."""
    most = rows[["low_wrong", "high_wrong"]].to_numpy(dtype=float)
    return "none" if np.isnan(most).all() else f"{100 * np.nanmax(most):.1f} %"


if __name__ == "__main__":
    main()
