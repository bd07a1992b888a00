"""The methods, the page and the picture of the experiment on domains that are in no training."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.curves import Roles, differences, draw_differences, mean_of_rare, shown_difference
from experiments.nuclei.training import BATCH, PATCH
from experiments.nuclei.unseen_data import BLUR, CHANGED, N_TRAIN, NOISE, RAMP, REAL, SEEN, UNSEEN
from experiments.nuclei.unseen_training import (
    GILS_PENALTY,
    GILS_STEP_SIZE,
    GILS_STEPS,
    STYLE_STEP_SIZE,
    STYLE_STEPS,
    STYLES,
    Method,
)
from experiments.record import render

PLAIN, TWICE, RANDOM, WORST = "plain", "plain x2", "random styles", "worst styles"
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


def at_the_end(scores: pd.DataFrame) -> pd.DataFrame:
    """The last moment of every training, with the mean over the unseen domains as one more stratum.

    Args:
        scores: From `experiments.curves.scores_of`.

    Returns:
        Rows as in ``scores``, all with iteration 0, because trainings of different lengths are compared at their ends.
    """
    last = scores.groupby(["method", "seed"])["iteration"].transform("max")
    return _with_mean(scores[scores["iteration"] == last].assign(iteration=0))


def compared(scores: pd.DataFrame, to: str) -> pd.DataFrame:
    """Differences at the end to one method: a row per method and stratum, see `experiments.curves.differences`.

    Args:
        scores: From `experiments.curves.scores_of`.
        to: The method that the others are compared with.
    """
    return differences(at_the_end(scores), replace(ROLES, plain=to))


def page_text(scores: pd.DataFrame, *, seeds: Sequence[int]) -> str:
    """The text of the page above its table.

    Args:
        scores: From `experiments.curves.scores_of`.
        seeds: Seeds of the trainings.
    """
    to = {name: compared(scores, name).set_index(["method", "stratum"]) for name in (PLAIN, TWICE, RANDOM)}
    rows = [
        {"method": method, "stratum": stratum, **{name: _verdict(found, method, stratum) for name, found in to.items()}}
        for method in METHODS
        for stratum in (SEEN, MEAN)
        if method != PLAIN
    ]
    needed = [to[name].loc[(WORST, MEAN), ["difference", "low", "high"]] for name in (TWICE, RANDOM)]
    rises = rises_of_plain(scores)
    return render(
        "nuclei/unseen",
        rows=rows,
        gaps=gaps(scores),
        mean=MEAN,
        seen=SEEN,
        n_train=N_TRAIN,
        real=REAL,
        changed=CHANGED,
        blur=BLUR,
        noise=NOISE,
        ramp=RAMP,
        n_test=scores[scores["method"] == PLAIN].groupby("stratum", sort=False)["n"].max().to_dict(),
        iterations=int(scores.loc[scores["method"] == PLAIN, "iteration"].max()),
        patch=PATCH,
        batch=BATCH,
        n_seeds=len(seeds),
        gils=METHODS["GI-LS"],
        gils_steps=GILS_STEPS,
        gils_step_size=GILS_STEP_SIZE,
        gils_penalty=GILS_PENALTY,
        styles=STYLES,
        gains=[f"{np.exp(sign * STYLES.gain):.2f}" for sign in (-1, 1)],
        style_steps=STYLE_STEPS,
        style_step_size=STYLE_STEP_SIZE,
        needed={name: shown_difference(*found) for name, found in zip((TWICE, RANDOM), needed, strict=True)},
        worth=all(found["low"] > 0 for found in needed),
        rises=rises,
        plateau=PLATEAU,
        has_plateaued=bool(max(rises[SEEN], rises[MEAN]) < PLATEAU),
        quarters=quarters(scores),
        by_domain=domain_table(scores),
    )


def gaps(scores: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Plain training's Dice in each domain at the end, in points, and how much lower that is than in the seen one."""
    found = compared(scores, PLAIN)
    means = found[found["method"] == PLAIN].set_index("stratum")["mean"]
    return {domain: {"dice": means[domain], "gap": means[SEEN] - means[domain]} for domain in (*ROLES.strata, MEAN)}


def quarters(scores: pd.DataFrame) -> pd.DataFrame:
    """Plain training's Dice after each quarter, in points: a row per domain, and the mean of the unseen ones."""
    plain = _with_mean(scores[scores["method"] == PLAIN])
    means = 100 * plain.pivot_table(index="stratum", columns="iteration", values="mean")
    means = means.loc[[*ROLES.strata, MEAN]].rename_axis("domain").rename_axis(None, axis=1)
    return means.rename(columns=lambda iteration: f"after {iteration}").reset_index()


def rises_of_plain(scores: pd.DataFrame) -> dict[str, float]:
    """How much plain training's Dice rose in its last quarter, in points, by domain and in the mean of the unseen."""
    means = quarters(scores).set_index("domain")
    return {str(domain): float(rise) for domain, rise in (means.iloc[:, -1] - means.iloc[:, -2]).items()}


def page_table(scores: pd.DataFrame) -> pd.DataFrame:
    """The table of the page: a row per method.

    Args:
        scores: From `experiments.curves.scores_of`.

    Returns:
        Dice of the seen domain and in the mean of the unseen ones, in points; their differences to plain training and
        to plain training of twice the length; the change of the generated images; and the processor time of a whole
        training, over that of plain training.
    """
    to_plain, to_twice = (compared(scores, to).set_index(["method", "stratum"]) for to in (PLAIN, TWICE))
    times = scores.assign(time=scores["milliseconds"] * scores["iteration"])
    time = times.groupby(["method", "seed"])["time"].max().groupby("method").mean()
    change = scores.groupby("method")["change"].mean()
    rows = []
    for method in METHODS:
        row: dict[str, object] = {"method": method}
        for stratum in (SEEN, MEAN):
            row[stratum] = to_plain.loc[(method, stratum), "mean"]
            for to, found in ((PLAIN, to_plain), (TWICE, to_twice)):
                row[f"{stratum} - {to}"] = _shown(found, method, stratum)
        rows.append(row | {"change of images": change[method], "time over plain": time[method] / time[PLAIN]})
    return pd.DataFrame(rows)


def domain_table(scores: pd.DataFrame) -> pd.DataFrame:
    """Differences to plain training of twice the length in each unseen domain: a row per method."""
    found = compared(scores, TWICE).set_index(["method", "stratum"])
    return pd.DataFrame(
        [
            {"method": method, **{domain: _shown(found, method, domain) for domain in UNSEEN}}
            for method in METHODS
            if method != TWICE
        ]
    )


def draw(scores: pd.DataFrame) -> Figure:
    """Differences to plain training of twice the length: the seen domain, the mean of the unseen ones, the real one."""
    roles = replace(ROLES, plain=TWICE, rare=(MEAN, *REAL))
    return draw_differences(compared(scores, TWICE), at_the_end(scores), roles)


def _with_mean(scores: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([scores, mean_of_rare(scores, ROLES).assign(stratum=MEAN)], ignore_index=True)


def _shown(found: pd.DataFrame, method: str, stratum: str) -> str:
    return shown_difference(*found.loc[(method, stratum), ["difference", "low", "high"]])


def _verdict(found: pd.DataFrame, method: str, stratum: str) -> str:
    """What the interval of a difference says; empty where there is none."""
    low, high = found.loc[(method, stratum), ["low", "high"]]
    if np.isnan(low):
        return ""
    return "helps" if low > 0 else "harms" if high < 0 else "no clear difference"
