"""How often `nnunet-dro explore` claims what is not there, and how often it finds what is.

Null: attributes and scores of the cases are drawn independently; a run claims something if it
confirms a combination. The scores have four shapes: Beta(8, 2); the same with 10 % of the cases at
0; Dice rounded to tenths, so that nearly all cases are tied; and HD95 (lognormal) with 10 % of the
cases missed. Attributes have two to five strata, one of which is rare, and every third attribute
repeats the one before with a fifth of its entries drawn anew. In the rows with patients, patients
have one to four cases, which have the patient's attributes (but for every second one) and half of
the variance of their scores in common.

Planted: Beta(8, 2) scores and attributes of three equal strata. Where two attributes are 1, scores
are lower by so many points; where one of them is, they are higher by half as many, and elsewhere
lower by a quarter, so that every stratum of every attribute has the same mean. Beside the command:
a test of every stratum alone, with all cases, the normal approximation of the same permutations,
and Holm's correction.

    python benchmarks/explore_null.py [--runs 1000] [--out FILE]
    python benchmarks/explore_null.py --table

Results so far are kept in the file: a stopped run goes on.
"""

import argparse
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtr
from scipy.stats import beta, rankdata

from nnunet_dro.evaluation.statistics.significance import holm
from nnunet_dro.exploration.candidates import LEVEL, search_and_test
from nnunet_dro.exploration.inputs import LabelScores
from nnunet_dro.exploration.rank_sums import patients_by_size, standardised
from nnunet_dro.exploration.search import CodedAttribute, Limits

#: Fewer than the command draws; a test is valid with any number.
N_PERMUTATIONS = 999

SHAPES = ("beta", "10 % at 0", "tenths", "HD95, 10 % missed")


@dataclass(frozen=True)
class Setting:
    """What is drawn, and how it is explored."""

    kind: str
    shape: str = "beta"
    n: int = 100
    attributes: int = 3
    max_attributes: int = 2
    labels: int = 1
    patients: bool = False
    points: int = 0
    candidates: int = 3
    # Other random numbers, for a setting that is drawn once more; the first ones stay as they were.
    repeat: int = field(default=0, repr=False)


NULL = (
    *(Setting("null", shape, n, d) for shape in SHAPES for n in (40, 100, 300) for d in (3, 8)),
    *(
        Setting("null", shape, n, 5, patients=True)
        for shape in ("beta", "HD95, 10 % missed")
        for n in (60, 150, 300)
    ),
    *(Setting("null", "beta", n, 6, max_attributes=3) for n in (100, 300)),
    *(Setting("null", shape, 300, 6, max_attributes=3) for shape in SHAPES[1:]),
    *(Setting("null", shape, 100, 5, labels=4) for shape in ("beta", "tenths")),
)
#: The settings that claimed most in their first 1,000 runs, drawn anew (the first of these with
#: --runs 4000).
AGAIN = (
    Setting("null", "beta", 300, 6, max_attributes=3, repeat=1),
    *(Setting("null", "HD95, 10 % missed", 300, 6, max_attributes=3, repeat=r) for r in (1, 2, 3)),
)
PLANTED = (
    *(
        Setting("planted", n=n, attributes=5, points=p, candidates=m)
        for n in (100, 200)
        for p in (10, 20)
        for m in (1, 3, 10)
    ),
    *(Setting("planted", n=400, attributes=5, points=p) for p in (10, 20)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000, help="Runs of each setting.")
    parser.add_argument(
        "--table", action="store_true", help="Print the tables of the docs instead."
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("benchmarks/results/explore_null.csv"),
        help="File to write.",
    )
    arguments = parser.parse_args()
    done = read(arguments.out) if arguments.out.exists() else pd.DataFrame()
    if arguments.table:
        print(null_table(done), planted_table(done), sep="\n\n")
        return
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    for setting in (*NULL, *AGAIN, *PLANTED):
        key = asdict(setting)
        if len(done) and (done[list(key)] == list(key.values())).all(axis=1).any():
            continue
        row = pd.DataFrame([key | measure(setting, arguments.runs)])
        done = pd.concat([done, row], ignore_index=True)
        done.round(4).to_csv(arguments.out, index=False)
        print(row.to_string(header=len(done) == 1, index=False), flush=True)


def read(path: Path) -> pd.DataFrame:
    """The results so far; "null" is a name."""
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def measure(setting: Setting, n_runs: int) -> dict[str, float]:
    """Shares of the runs, with a 95 % interval of the first one (Clopper and Pearson)."""
    rng = np.random.default_rng(zlib.crc32(repr(setting).encode()) + setting.repeat)
    runs = pd.DataFrame([one_run(setting, rng) for _ in range(n_runs)])
    first = "found" if setting.kind == "planted" else "claims"
    k = int(runs[first].sum())
    low = float(beta.ppf(0.025, k, n_runs - k + 1)) if k else 0.0
    high = float(beta.ppf(0.975, k + 1, n_runs - k)) if k < n_runs else 1.0
    return {"runs": n_runs, **runs.mean().to_dict(), "low": low, "high": high}


def one_run(setting: Setting, rng: np.random.Generator) -> dict[str, float]:
    """Draw a table of cases, and explore it."""
    patients = np.arange(setting.n)
    if setting.patients:
        sizes = rng.integers(1, 5, setting.n)
        patients = np.repeat(np.arange(setting.n), sizes)[: setting.n]
    attributes = list(made_attributes(setting, patients, rng))
    labels = [made_scores(setting, n, patients, rng) for n in range(setting.labels)]
    planted = {("0", "1"), ("1", "1")}
    if setting.kind == "planted":
        labels = [with_interaction(labels[0], attributes, setting.points / 100)]
    outcome = search_and_test(
        attributes,
        labels,
        patients,
        Limits(setting.max_attributes, n_candidates=setting.candidates),
        seed=int(rng.integers(2**31)),
        n_permutations=N_PERMUTATIONS,
    )
    confirmed = [
        c.combination.parts
        for c, row in zip(outcome.candidates, outcome.rows, strict=True)
        if row["confirmed"]
    ]
    is_found = any(set(parts) == planted for parts in confirmed)
    return {
        "claims": bool(confirmed),
        "combinations": outcome.n_combinations,
        "carried_over": len(outcome.rows),
        "found": is_found if setting.kind == "planted" else np.nan,
        "strata_alone": margins_differ(attributes, labels[0])
        if setting.kind == "planted"
        else np.nan,
    }


def made_attributes(
    setting: Setting, patients: np.ndarray, rng: np.random.Generator
) -> Iterator[CodedAttribute]:
    """Attributes, named by their number, of patients or of cases."""
    codes = np.zeros(setting.n, dtype=np.intp)
    for number in range(setting.attributes):
        n_strata = 3 if setting.kind == "planted" else int(rng.integers(2, 6))
        shares = (
            np.full(n_strata, 1 / n_strata)
            if setting.kind == "planted"
            else rng.dirichlet(np.full(n_strata, 3))
        )
        drawn = rng.choice(n_strata, setting.n, p=shares)
        if setting.patients and number % 2 == 0:
            drawn = drawn[patients]
        if number % 3 == 2 and setting.kind == "null":
            drawn = np.where(rng.random(setting.n) < 0.2, drawn, codes)
            n_strata = max(n_strata, int(codes.max()) + 1)
        codes = drawn
        yield CodedAttribute(str(number), codes, tuple(map(str, range(n_strata))))


def made_scores(
    setting: Setting, number: int, patients: np.ndarray, rng: np.random.Generator
) -> LabelScores:
    """Scores that know nothing of the attributes."""
    deviates = rng.normal(size=setting.n)
    if setting.patients:
        deviates = np.sqrt(0.5) * deviates + np.sqrt(0.5) * rng.normal(size=setting.n)[patients]
    failed = rng.random(setting.n) < 0.1
    if setting.shape.startswith("HD95"):
        values = np.where(failed, np.nan, np.exp(1.5 + 0.8 * deviates))
        goodness = np.where(failed, -np.inf, -values)
        return LabelScores(
            str(number), values, failed, goodness, np.where(failed, np.nanmax(values), values)
        )
    values = beta.ppf(ndtr(deviates), 8, 2)
    if setting.shape == "10 % at 0":
        values = np.where(failed, 0.0, values)
    elif setting.shape == "tenths":
        values = values.round(1)
    return LabelScores(str(number), values, np.zeros(setting.n, dtype=bool), values, values)


def with_interaction(
    scores: LabelScores, attributes: list[CodedAttribute], effect: float
) -> LabelScores:
    """Lower where both attributes are 1, and so that every stratum of both has the same mean."""
    first, second = (attributes[n].codes == 1 for n in (0, 1))
    shift = np.where(first & second, -1.0, np.where(first | second, 0.5, -0.25)) * effect
    values = scores.values + shift  # not cut off at 1: ranks are all that is looked at
    return LabelScores(scores.label, values, scores.failed, values, values)


def margins_differ(attributes: list[CodedAttribute], scores: LabelScores) -> bool:
    """Whether any stratum alone, with all cases, is significantly lower than the rest."""
    ranks = rankdata(scores.goodness)
    blocks = patients_by_size(np.arange(len(scores.goodness)))
    z = [standardised(a.codes, len(a.strata), ranks, blocks) for a in attributes]
    return bool((holm(ndtr(np.concatenate(z))) <= LEVEL).any())


def null_table(rows: pd.DataFrame) -> str:
    """Share of the runs that claim something, by what is drawn and the number of cases."""
    null = rows[rows["kind"] == "null"]
    sizes = sorted(null["n"].unique())
    lines = [
        f"| scores | attributes | {' | '.join(f'{n} cases' for n in sizes)} |",
        "| --- | ---" + " | ---:" * len(sizes) + " |",
    ]
    null = null.assign(claimed=null["claims"] * null["runs"], anew=null["repeat"] > 0)
    how = ["shape", "attributes", "max_attributes", "labels", "patients", "anew"]
    for (shape, n_attributes, most, n_labels, patients, anew), inside in null.groupby(
        how, sort=False
    ):
        sums = inside.groupby("n")[["claimed", "runs"]].sum()
        shares = sums["claimed"] / sums["runs"]
        cells = [f"{100 * shares[n]:.1f} %" if n in shares.index else "" for n in sizes]
        what = f"{n_attributes}, by {('two', 'three')[most - 2]}"
        what += (
            f", {n_labels} labels"
            if n_labels > 1
            else ", several cases per patient"
            if patients
            else ""
        )
        what += f", {inside['runs'].sum():,} new runs" if anew else ""
        lines.append(f"| {shape} | {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def planted_table(rows: pd.DataFrame) -> str:
    """Share of the runs that confirm the planted combination, with three candidates."""
    planted = rows[rows["kind"] == "planted"]
    lines = ["| cases | points | explore | any stratum alone |", "| ---: | ---: | ---: | ---: |"]
    for (n, points), inside in planted.groupby(["n", "points"]):
        confirmed = 100 * inside.set_index("candidates")["found"][3]
        alone = 100 * inside["strata_alone"].mean()
        lines.append(f"| {n} | {points} | {confirmed:.0f} % | {alone:.0f} % |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
