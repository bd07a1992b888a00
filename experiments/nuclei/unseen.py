"""Do label smoothing, GI-LS or an ascent in styles help on domains in no training?

There are eight training images, all of one modality. A training takes one to three minutes of a
processor core, and the nine trainings of a seed about 17 minutes in all.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.curves.figure import draw_differences
from experiments.curves.results import (
    Roles,
    at_the_end,
    differences,
    mean_of_rare,
    shown_difference,
)
from experiments.datasets.nuclei import Image
from experiments.nuclei import experiment as nuclei
from experiments.nuclei import patches, training, unseen_data, unseen_styles, unseen_training
from experiments.nuclei.methods import METHODS as TRAINERS
from experiments.nuclei.unseen_data import N_TEST, REAL, SEEN, UNSEEN, read_domains, unseen_images
from experiments.nuclei.unseen_training import Method, UnseenRun, train_unseen
from experiments.record import Experiment, Options, Page, render

ITERATIONS = 700
PLAIN = "plain"
TWICE = "plain x2"
RANDOM = "random styles"
WORST = "worst styles"
#: GI-LS as it is compared with the others; each method after it changes one setting.
_GILS = Method(smoothing=0.1, generated="GI-LS", largest_change=0.05, warmup=0.3)
METHODS = {
    PLAIN: Method(),
    TWICE: Method(length=2),
    "LS": Method(smoothing=0.1),
    "GI-LS": _GILS,
    "GI-LS, rms 0.02": replace(_GILS, largest_change=0.02),
    "GI-LS, alpha 0": replace(_GILS, smoothing=0.0),
    "GI-LS, no warm-up": replace(_GILS, warmup=0.0),
    RANDOM: Method(generated="random styles"),
    WORST: Method(generated="worst styles"),
}
ROLES = Roles(PLAIN, "", common=(SEEN,), rare=UNSEEN)
#: Stratum of the mean over the unseen domains.
MEAN = "mean of unseen"
#: Plain training has plateaued if its Dice rises by fewer points than this in the last quarter.
PLATEAU = 0.5


@lru_cache(maxsize=1)
def _images(data: Path, seed: int, quick: bool) -> tuple[list[Image], list[Image]]:
    rng = np.random.default_rng([seed, 0])
    return unseen_images(data, read_domains(data), rng=rng, n_test=2 if quick else N_TEST)


def _runs(options: Options) -> list[Mapping[str, UnseenRun]]:
    read_domains(options.data)
    iterations = nuclei.QUICK_ITERATIONS if options.quick else ITERATIONS

    def run(name: str, seed: int) -> UnseenRun:
        method = METHODS[name]
        return UnseenRun(TRAINERS[PLAIN], seed, method.length * iterations, method)

    return [options.runs_of(run, list(METHODS))]


def _make(options: Options, name: str, run: UnseenRun) -> Mapping[str, Any]:
    return train_unseen(run, *_images(options.data, run.seed, options.quick))


def _page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    scores = tables["-all"]
    table = page_table(scores)
    columns_of_mean = [name for name in table if str(name).startswith(MEAN)]
    shown = table[["method", SEEN, *columns_of_mean]]
    return Page(page_text(scores), table, shown=shown, pictures={"": partial(draw, scores)})


EXPERIMENT = Experiment(
    name="nuclei-unseen",
    title="Few images of nuclei, and domains in no training",
    runs=_runs,
    make=_make,
    # Images that are generated take steps of their own.
    minutes=lambda run: nuclei.minutes(run) * (3 if run.method.generated else 1),
    tables=lambda finished, _: {"-all": nuclei.scores_of_runs(finished)},
    page=_page,
    data=nuclei.DATA,
)


def _ends(scores: pd.DataFrame) -> pd.DataFrame:
    """The last moments, as iteration 0 whatever the length.

    The mean over the unseen domains is one more stratum.
    """
    return _with_mean(at_the_end(scores).assign(iteration=0))


def compared(scores: pd.DataFrame, to: str) -> pd.DataFrame:
    """Differences at the end to one method: rows as from `differences`, per method and stratum."""
    return differences(_ends(scores), replace(ROLES, plain=to))


def page_text(scores: pd.DataFrame) -> str:
    """The text of the page above its table."""
    needed = {}
    is_worth = True
    for name in (TWICE, RANDOM):
        changes = compared(scores, name).set_index(["method", "stratum"])
        needed[name] = _shown(changes, WORST, MEAN)
        if not changes.loc[(WORST, MEAN), "low"] > 0:
            is_worth = False

    plain = scores[scores["method"] == PLAIN]
    to_plain = compared(scores, PLAIN)
    dice = to_plain[to_plain["method"] == PLAIN].set_index("stratum")["mean"]
    rises = rises_of_plain(scores)
    return render(
        "nuclei/unseen",
        patches,
        training,
        unseen_data,
        unseen_styles,
        unseen_training,
        dice=dice,
        domains=(*ROLES.strata, MEAN),
        mean=MEAN,
        n_test=plain.groupby("stratum", sort=False)["n"].max().to_dict(),
        iterations=int(plain["iteration"].max()),
        n_seeds=scores["seed"].nunique(),
        gils=METHODS["GI-LS"],
        gains=[f"{np.exp(sign * unseen_styles.GAIN):.2f}" for sign in (-1, 1)],
        needed=needed,
        worth=is_worth,
        rises=rises,
        plateau=PLATEAU,
        has_plateaued=bool(max(rises[SEEN], rises[MEAN]) < PLATEAU),
        by_domain=domain_table(scores),
    )


def rises_of_plain(scores: pd.DataFrame) -> dict[str, float]:
    """How much plain training's Dice rose in its last quarter, in points.

    There is a number for each domain, and one for the mean of the unseen ones.
    """
    plain = _with_mean(scores[scores["method"] == PLAIN])
    dice = plain.pivot_table(index="stratum", columns="iteration", values="mean")
    points = 100 * dice.loc[[*ROLES.strata, MEAN]]
    rises = points.iloc[:, -1] - points.iloc[:, -2]
    return {str(domain): float(rise) for domain, rise in rises.items()}


def page_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Dice of the seen domain and the mean of the unseen ones, and differences, by method.

    The changes of images and the time stand beside.
    """
    to_plain = compared(scores, PLAIN).set_index(["method", "stratum"])
    to_twice = compared(scores, TWICE).set_index(["method", "stratum"])
    times = scores.assign(time=scores["milliseconds"] * scores["iteration"])
    time = times.groupby(["method", "seed"])["time"].max().groupby("method").mean()
    change = scores.groupby("method")["change"].mean()
    rows = []
    for method in METHODS:
        row: dict[str, object] = {"method": method}
        for stratum in (SEEN, MEAN):
            row[stratum] = to_plain.loc[(method, stratum), "mean"]
            row[f"{stratum} - {PLAIN}"] = _shown(to_plain, method, stratum)
            row[f"{stratum} - {TWICE}"] = _shown(to_twice, method, stratum)
        row["change of images"] = change[method]
        row["time over plain"] = time[method] / time[PLAIN]
        rows.append(row)
    return pd.DataFrame(rows)


def domain_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Differences to plain training of twice the length in each unseen domain.

    There is a row per method, and one for GI-LS.
    """
    changes = compared(scores, TWICE).set_index(["method", "stratum"])
    rows = []
    for method in METHODS:
        if method == TWICE or method.startswith("GI-LS,"):
            continue
        row = {"method": method}
        for domain in UNSEEN:
            row[domain] = _shown(changes, method, domain)
        rows.append(row)
    return pd.DataFrame(rows)


def draw(scores: pd.DataFrame) -> Figure:
    """Differences to plain training of twice the length.

    They are shown in the seen domain, in the mean of the unseen ones, and in the real one.
    """
    roles = replace(ROLES, plain=TWICE, rare=(MEAN, *REAL))
    return draw_differences(compared(scores, TWICE), _ends(scores), roles)


def _with_mean(scores: pd.DataFrame) -> pd.DataFrame:
    mean = mean_of_rare(scores, ROLES).assign(stratum=MEAN)
    return pd.concat([scores, mean], ignore_index=True)


def _shown(changes: pd.DataFrame, method: str, stratum: str) -> str:
    return shown_difference(*changes.loc[(method, stratum), ["difference", "low", "high"]])
