"""Rare modalities of cell nuclei: the settings of Fidon et al. 2022, every one with every other.

    python -m experiments.nuclei.factorial --data Dataset022_DSBNuclei [--seeds 0 1] [--quick] [--out F] [--cache F]

The optimiser (SGD, or nnU-Net's with Nesterov momentum), beta, importance weights, and the momentum of the stale
losses. A training takes a minute and a half of a processor core; a seed has 28. Finished runs are kept in the cache.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.curves import Roles, differences, mean_interval, shown_difference
from experiments.nuclei.__main__ import divided_images, minutes, nuclei_parser, plan
from experiments.nuclei.methods import ROLES
from experiments.nuclei.training import LEARNING_RATE, OptimisedRun, Run, train
from experiments.record import cached_runs, module_command, render, result_folder, write_result, write_table
from nnunet_dro.evaluation.stratum_statistics import describe

ITERATIONS = 1000
NESTEROV, SGD = "Nesterov", "SGD"
#: Learning rates of SGD without momentum with which ERM is trained, and the one of all other trainings with SGD.
RATES, RATE = (0.01, 0.1, 1.0), 0.1
BETAS, MOMENTA = (10, 100, 1000), (0, 0.9)
#: Each factor of the trainings that are not ERM, the level that the others are compared with first.
LEVELS: Mapping[str, tuple[object, ...]] = {
    "weights": (False, True),
    "momentum": MOMENTA,
    "beta": BETAS,
    "optimiser": (NESTEROV, SGD),
}
#: The statistics of their Table 2.
STATISTICS = ("mean", "median", "iqr", "p25", "p10", "p5")


@dataclass(frozen=True)
class Setting:
    """A corner of the factorial.

    Attributes:
        optimiser: `NESTEROV` or `SGD`.
        beta: 0 is ERM.
        weights: Whether there are importance weights.
        momentum: Momentum of the stale losses.
        rate: Learning rate at the start.
    """

    optimiser: str
    beta: int = 0
    weights: bool = False
    momentum: float = 0
    rate: float = LEARNING_RATE

    @property
    def name(self) -> str:
        """Its name in tables and of its runs."""
        words = [self.optimiser, f"beta {self.beta}" if self.beta else "ERM"]
        words += ["weights"] * self.weights + [f"momentum {self.momentum:g}"] * (self.momentum > 0)
        words += [f"rate {self.rate:g}"] * (self.optimiser == SGD and self.rate != RATE)
        return ", ".join(words)

    @property
    def trainer(self) -> str:
        """The trainer that draws and weights in this way."""
        # A trainer's name has no options that are its defaults, as a beta of 100.
        options = f"_beta{self.beta}" * (self.beta != 100) + "_noIS" * (self.beta > 0 and not self.weights)
        return "nnUNetTrainerHWS" + options + f"_momentum{self.momentum:g}" * (self.momentum > 0)

    def run(self, seed: int, iterations: int) -> Run:
        """A training with it."""
        if self.optimiser == SGD:
            return OptimisedRun(self.trainer, seed, iterations, self.rate, momentum=0.0)
        return Run(self.trainer, seed, iterations)


def settings() -> list[Setting]:
    """All corners, and ERM by SGD with other learning rates."""
    corners = [
        Setting(optimiser, beta, weights, momentum, LEARNING_RATE if optimiser == NESTEROV else RATE)
        for optimiser in (NESTEROV, SGD)
        for beta, weights, momentum in [(0, False, 0), *product(BETAS, (False, True), MOMENTA)]
    ]
    return corners + [Setting(SGD, rate=rate) for rate in RATES if rate != RATE]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = nuclei_parser("nuclei.factorial", str(__doc__).splitlines()[0])
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    seeds, iterations = plan(arguments, ITERATIONS)
    images_of = divided_images(arguments.data, parser, quick=arguments.quick)
    runs = {
        f"{setting.name}-seed{seed}": (setting, setting.run(seed, iterations))
        for seed in seeds
        for setting in settings()
    }

    def make(name: str, progress: Callable[[float], None]) -> dict[str, object]:
        run = runs[name][1]
        return asdict(train(run, *images_of(run.seed), progress=progress))

    keys = {name: asdict(run) for name, (_, run) in runs.items()}
    made = cached_runs(
        arguments.cache / "factorial", keys, make, minutes=lambda _: minutes(iterations), jobs=arguments.jobs
    )
    folder = result_folder(arguments.out, quick=arguments.quick)
    table = pd.concat([_statistics(*runs[name], content) for name, content in made.items()], ignore_index=True)
    write_table(folder / "nuclei-factorial-all.csv", table, float_format="%.2f")
    # The page shows what is in the file, rounded once.
    table = pd.read_csv(folder / "nuclei-factorial-all.csv")
    write_table(folder / "nuclei-factorial-effects.csv", main_effects(of_both(table)), float_format="%.4f")
    page = write_result(
        folder,
        "nuclei-factorial",
        title="Beta, weights, momentum and optimiser: nuclei",
        text=page_text(table, iterations=iterations, seeds=seeds),
        table=page_table(table),
        figure=draw(table),
        command=module_command("experiments.nuclei.factorial", argv),
        seeds=seeds,
        quick=arguments.quick,
        seconds=sum(content["seconds"] for content in made.values()),
    )
    sys.stdout.write(f"{page}\n")


def _statistics(setting: Setting, run: Run, content: Mapping[str, Any]) -> pd.DataFrame:
    """Statistics of the Dice at the end, in points: a row per modality."""
    dice = pd.DataFrame(content["dice"], columns=["iteration", "stratum", "case", "dice"])
    rows = []
    for stratum, of in dice[dice["iteration"] == run.iterations].groupby("stratum")["dice"]:
        found = describe(of.to_numpy(dtype=np.float64))
        place = {"setting": setting.name, **asdict(setting), "seed": run.seed, "stratum": stratum}
        rows.append(place | {name: 100 * found[name] for name in STATISTICS})
    return pd.DataFrame(rows).assign(clipped=100 * content["clipped_share"])


def of_both(table: pd.DataFrame) -> pd.DataFrame:
    """The statistics of the common modality, and their means over the rare ones with the stratum "rare".

    Args:
        table: A row per setting, seed and modality, with `STATISTICS` in points.
    """
    kept = ["setting", *LEVELS, "rate", "seed"]
    rare = table[table["stratum"].isin(ROLES.rare)].groupby(kept, sort=False, as_index=False)[list(STATISTICS)].mean()
    both = pd.concat([table[table["stratum"].isin(ROLES.common)], rare.assign(stratum="rare")], ignore_index=True)
    return both[[*kept, "stratum", *STATISTICS]]


def differences_to_erm(both: pd.DataFrame) -> pd.DataFrame:
    """Differences of each statistic to ERM by the same optimiser.

    Args:
        both: From `of_both`.

    Returns:
        Rows as from `experiments.curves.differences`; the statistic is the ``label``.
    """
    both = both.rename(columns={"setting": "method"})
    long = both.melt(["method", "optimiser", "seed", "stratum"], STATISTICS, "label", "points")
    long = long.assign(mean=long["points"] / 100, p10=np.nan, share=np.nan, iteration=0)
    found = []
    for optimiser, of in long.groupby("optimiser", sort=False):
        roles = Roles(f"{optimiser}, ERM", "", common=ROLES.common, rare=("rare",))
        found.append(differences(of, roles).assign(optimiser=optimiser))
    return pd.concat(found, ignore_index=True)


def main_effects(both: pd.DataFrame) -> pd.DataFrame:
    """What a factor changes, over all pairs of settings that differ in it alone; ERM takes no part.

    Args:
        both: From `of_both`.

    Returns:
        Columns ``factor``, ``level``, ``against`` (the level it is compared with), ``stratum``, ``pairs``, and
        ``difference`` of the mean Dice in points, the mean over the pairs and the seeds, with ``low`` and ``high``, its
        95 % t-interval over the seeds.
    """
    rows = []
    for factor, (against, *levels) in LEVELS.items():
        others = [name for name in LEVELS if name != factor]
        # The two optimisers have learning rates of their own.
        wide = both[both["beta"] > 0].pivot(index=["stratum", "seed", *others], columns=factor, values="mean")
        for level in wide.columns.intersection(levels):
            paired = (wide[level] - wide[against]).dropna()
            for stratum, of in paired.groupby("stratum", sort=False):
                place = {"factor": factor, "level": level, "against": against, "stratum": stratum}
                by_seed = of.groupby("seed")
                change = dict(zip(("difference", "low", "high"), mean_interval(by_seed.mean()), strict=True))
                rows.append(place | {"pairs": int(by_seed.size().max())} | change)
    return pd.DataFrame(rows)


def page_text(table: pd.DataFrame, *, iterations: int, seeds: Sequence[int]) -> str:
    """The text of the page above its table.

    Args:
        table: A row per setting, seed and modality.
        iterations: Length of the trainings.
        seeds: Their seeds.
    """
    both = of_both(table)
    effects = main_effects(both)
    effects["shown"] = [shown_difference(*row) for row in effects[["difference", "low", "high"]].to_numpy()]
    compared = differences_to_erm(both)
    compared = compared[(compared["stratum"] == "rare") & (compared["label"] == "mean")].set_index("method")
    compared = compared.loc[both.loc[both["beta"] > 0, "setting"].unique()]
    wide = both.pivot(index=["stratum", "seed"], columns="setting", values=list(STATISTICS))

    def mean(setting: Setting, *, rare: bool = True) -> float:
        """Mean Dice of the rare modalities or of the common one."""
        return float(wide["mean", setting.name].xs(_stratum(rare=rare)).mean())

    def change(setting: Setting, other: Setting, *, rare: bool = True, statistic: str = "mean") -> str:
        """A setting minus another, of the rare modalities or of the common one; empty if one was not trained."""
        if not {setting.name, other.name} <= set(both["setting"]):
            return ""
        of = wide[statistic].xs(_stratum(rare=rare))
        return shown_difference(*mean_interval(of[setting.name] - of[other.name]))

    return render(
        "nuclei/factorial",
        Setting=Setting,
        mean=mean,
        change=change,
        effects=effects.to_dict("records"),
        erm={"Nesterov": Setting(NESTEROV), "SGD": Setting(SGD, rate=RATE)},
        by_rate={rate: Setting(SGD, rate=rate) for rate in RATES},
        rate=RATE,
        nesterov_rate=LEARNING_RATE,
        betas=BETAS,
        best=compared["difference"].idxmax(),
        worst=compared["difference"].idxmin(),
        of_rare=compared.to_dict("index"),
        n_better=int((compared["low"] > 0).sum()),
        n_worse=int((compared["high"] < 0).sum()),
        n_compared=len(compared),
        common=ROLES.common[0],
        iterations=iterations,
        n_seeds=len(seeds),
    )


def _stratum(*, rare: bool) -> str:
    return "rare" if rare else ROLES.common[0]


def page_table(table: pd.DataFrame) -> pd.DataFrame:
    """A row per setting: the rare modalities' mean, p10 and IQR and the common one's mean, with their differences."""
    found = differences_to_erm(of_both(table)).set_index(["method", "stratum", "label"])
    rows = []
    for setting, of in table.groupby("setting", sort=False):
        row: dict[str, object] = {"setting": setting}
        for stratum, words in (("rare", "rare"), (ROLES.common[0], ROLES.common[0])):
            for statistic in ("mean", "p10", "iqr") if stratum == "rare" else ("mean",):
                place = found.loc[(setting, stratum, statistic)]
                row[f"{words} {statistic}"] = place["mean"]
                row[f"{words} {statistic} - ERM"] = shown_difference(*place[["difference", "low", "high"]])
        rows.append(row | {"clipped, %": of["clipped"].mean()})
    return pd.DataFrame(rows)


def draw(table: pd.DataFrame) -> Figure:
    """Differences to ERM of the rare modalities' mean and of the common one's, a row per setting."""
    found = differences_to_erm(of_both(table))
    found = found[(found["label"] == "mean") & found["difference"].notna()]
    names = list(dict.fromkeys(found["method"]))
    figure = Figure(figsize=(11, 1.5 + 0.28 * len(names)), layout="constrained")
    for axes, stratum in zip(figure.subplots(1, 2, sharey=True), ("rare", ROLES.common[0]), strict=True):
        here = found[found["stratum"] == stratum].set_index("method").loc[names]
        for place, (low, high, middle) in enumerate(here[["low", "high", "difference"]].to_numpy()):
            axes.plot([low, high], [place] * 2, color="#0072B2", linewidth=2)
            axes.plot(middle, place, "D", color="#0072B2", markersize=5)
        axes.axvline(0, color="0.3", linewidth=0.8)
        axes.set(title=stratum, xlabel="mean Dice - ERM by the same optimiser, points")
        axes.set_yticks(range(len(names)), names, fontsize=8)
        axes.grid(color="0.92", axis="x")
        axes.spines[["top", "right"]].set_visible(False)
    axes.invert_yaxis()
    return figure


if __name__ == "__main__":
    main()
