"""The page of the experiment on convergence."""

from collections.abc import Sequence

import pandas as pd

from experiments.curves import Roles, decision, differences
from experiments.nnunet_runs.plans import BATCH_SIZES
from experiments.nnunet_runs.study import Study
from experiments.record import collapse_rates, collapsed_trainings, render, without_collapsed

#: Points of Dice; plain training has converged if it rises by less in the second half.
CONVERGED = 0.5


def page_text(
    found: pd.DataFrame, scores: pd.DataFrame, roles: Roles, *, study: Study, iterations: int, seeds: Sequence[int]
) -> str:
    """The text of the page above its table.

    Args:
        found: From `differences`.
        scores: From `scores_of`.
        roles: What the methods and the strata are.
        study: The data.
        iterations: Length of the trainings.
        seeds: Their seeds.
    """
    at_the_end = scores[scores["iteration"] == iterations]
    collapsed = collapsed_trainings(at_the_end)
    learnt = differences(without_collapsed(scores, collapsed), roles)
    of_label = found[found["label"] == roles.label]
    plain = of_label[of_label["method"] == roles.plain].pivot(index="iteration", columns="stratum", values="mean")
    rise = plain.loc[iterations] - plain.loc[iterations // 2]
    rare, label = roles.rare[0], roles.label
    return render(
        "convergence/page",
        settings=study.settings,
        decision=decision(found, roles, early=iterations // 10).to_dict("records"),
        trainers=scores.drop_duplicates("method").set_index("method")["trainer"].to_dict(),
        verdicts=_verdicts(found, roles, iterations),
        rates=collapse_rates(at_the_end, collapsed, labels=[str(label)]) if len(collapsed) else [],
        verdicts_without=_verdicts(learnt, roles, iterations),
        rise=rise.to_dict(),
        rising=list(rise.index[rise >= CONVERGED]),
        rare=rare,
        label=label,
        told=roles.told,
        plain=roles.plain,
        iterations=iterations,
        slices=study.parent == "2d",
        configuration=study.configuration,
        visits=round(iterations * BATCH_SIZES[study.parent] / sum(study.settings["train"].values())),  # type: ignore[attr-defined]
        n_seeds=len(seeds),
    )


def _verdicts(found: pd.DataFrame, roles: Roles, last: int) -> list[dict[str, object]]:
    """`verdict` of each method but plain training that has a pair of seeds."""
    rows = found[(found["label"] == roles.label) & (found["stratum"] == roles.rare[0])]
    rows = rows[(rows["method"] != roles.plain) & rows["difference"].notna()]
    return [verdict(of_method, last) for _, of_method in rows.groupby("method", sort=False)]


def verdict(rows: pd.DataFrame, last: int) -> dict[str, object]:
    """Where one method's gain on the rare stratum is largest, and what is left of it at the end.

    Args:
        rows: Of `differences`, those of one method and the rare stratum.
        last: The last iteration.

    Returns:
        ``method``; ``moment`` and ``largest``, the iteration and the points of the largest difference; ``end`` with
        ``low`` and ``high``, the difference at the end and its interval; and ``left``, whether this is above 0.
    """
    largest = rows.sort_values("difference").iloc[-1]
    end = rows[rows["iteration"] == last].iloc[0]
    return {
        "method": end["method"],
        "moment": largest["iteration"],
        "largest": largest["difference"],
        "end": end["difference"],
        "low": end["low"],
        "high": end["high"],
        "left": bool(end["low"] > 0),
    }
