"""A study as a table, a file of trials and a page of plots."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
from markupsafe import Markup
from optuna.trial import FrozenTrial, TrialState
from rich.markup import escape
from rich.table import Table

from nnunet_dro.files.atomic import replacing
from nnunet_dro.pages.html import page_environment
from nnunet_dro.pages.wording import NO_VALUE, count
from nnunet_dro.tuning.study import Settings
from nnunet_dro.tuning.trials import REPEAT_OF, Repeated, chosen_trial, copied, is_search, repeated

_ASSETS = Path(__file__).parent / "assets"

_STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}

#: The reason of a failed trial that recorded none: its machine no longer responds.
_SILENT = "no sign of life"


def trials_frame(study: optuna.Study, settings: Settings) -> pd.DataFrame:
    """A row per trial: what trials.csv has.

    ``value`` is the objective (a fraction, or mm), ``epochs`` counts those with a pseudo Dice, ``pseudo_dice`` is the
    running mean after the last of them, and ``reason`` says why a trial is not complete.
    """
    rows = [_row(trial, settings) for trial in study.get_trials(deepcopy=False)]
    columns = ["number", "state", "value", *settings.space.names]
    columns += ["trainer", "repeat_of", "epochs", "pseudo_dice", "minutes", "reason"]
    frame: pd.DataFrame = pd.DataFrame(rows, columns=columns)
    return frame.astype({"repeat_of": "Int64"})


def _row(trial: FrozenTrial, settings: Settings) -> dict[str, Any]:
    attributes = trial.user_attrs
    last = max(trial.intermediate_values, default=None)
    dice = None if last is None else abs(trial.intermediate_values[last])
    reason = attributes.get("reason", _SILENT if trial.state == TrialState.FAIL else "")
    # A trial that was started again has the attributes of its first attempt.
    is_over = trial.state in (TrialState.PRUNED, TrialState.FAIL)
    return {
        "number": trial.number,
        "state": _STATES[trial.state],
        "value": trial.value if trial.state == TrialState.COMPLETE else None,
        **{name: attributes.get("values", {}).get(name) for name in settings.space.names},
        "trainer": attributes.get("trainer", ""),
        "repeat_of": attributes.get(REPEAT_OF),
        "epochs": len(trial.intermediate_values),
        "pseudo_dice": None if dice is None else round(dice, 4),
        "minutes": round(trial.duration.total_seconds() / 60, 2) if trial.duration else None,
        "reason": reason if is_over else "",
    }


def trials_table(study: optuna.Study, settings: Settings) -> Table:
    """The table of the search: the best trials first, then the pruned ones, then the others."""
    frame = _in_order(trials_frame(study, settings), settings)
    frame = frame[frame["repeat_of"].isna()]
    table = Table(title=f"{study.study_name}: {settings.objective.text}", title_justify="left")
    table.add_column("trial", justify="right")
    table.add_column(settings.objective.text, justify="right")
    for name in settings.space.names:
        table.add_column(escape(name), justify="right")
    table.add_column("min", justify="right")
    with_reasons = bool((frame["reason"] != "").any())
    if with_reasons:
        table.add_column("reason", overflow="fold")
    for row in frame.to_dict("records"):
        value = row["state"] if pd.isna(row["value"]) else f"{row['value']:.4f}"
        tuned = ["" if pd.isna(row[name]) else _shown(row[name]) for name in settings.space.names]
        minutes = "" if pd.isna(row["minutes"]) else f"{row['minutes']:.1f}"
        reason = row["reason"] if len(row["reason"]) <= 80 else f"{row['reason'][:79]}…"
        table.add_row(str(row["number"]), value, *map(escape, tuned), minutes, *([escape(reason)] * with_reasons))
    return table


def repeats_table(study: optuna.Study, settings: Settings) -> Table | None:
    """The table of the trainers that were trained again, the best mean first; None if there is none."""
    found = repeated(study)
    if not found:
        return None
    table = Table(title=f"The best, trained again: {settings.objective.text}", title_justify="left")
    for name in ("trial", "in the search", "again", "mean", "SD"):
        table.add_column(name, justify="right")
    table.add_column("trainer", overflow="fold")
    for one in found:
        table.add_row(*map(escape, _repeat_cells(one)))
    return table


def _again(study: optuna.Study) -> str:
    """What the chosen trainer scored in its further trainings; empty without any."""
    chosen = chosen_trial(study)
    found = [one for one in repeated(study) if chosen is not None and one.trial.number == chosen.number]
    if not found:
        return ""
    (one,) = found
    spread = f" (SD {one.spread:.4f})" if len(one.values) > 1 else ""
    return f"{one.mean:.4f}{spread} in {count(len(one.values), 'further training')}"


def _repeat_cells(one: Repeated) -> list[str]:
    numbers = [f"{one.trial.value:.4f}", " ".join(f"{value:.4f}" for value in one.values), f"{one.mean:.4f}"]
    spread = f"{one.spread:.4f}" if len(one.values) > 1 else NO_VALUE
    return [str(one.trial.number), *numbers, spread, one.trainer]


def warnings_of(study: optuna.Study, settings: Settings) -> list[str]:
    """Sentences about the chosen trainer: which of its values lie at the edge of their range."""
    chosen = chosen_trial(study)
    if chosen is None:
        return []
    values = chosen.user_attrs["values"]
    return [
        f"The best {one.name}, {_shown(values[one.name])}, lies at the {edge} edge of its range {one.text}: better "
        f"values may lie beyond. Tune again with a wider range, as another study (--study)."
        for one, edge in settings.space.edges(values)
    ]


def _in_order(frame: pd.DataFrame, settings: Settings) -> pd.DataFrame:
    """The trials with the best first, then the pruned ones, then the others by number."""
    rank = frame["state"].map({"complete": 0, "pruned": 1}).fillna(2)
    value = frame["value"].astype(float).fillna(0) * (-1 if settings.objective.maximise else 1)
    order = pd.DataFrame({"rank": rank, "value": value, "number": frame["number"]})
    return frame.loc[order.sort_values(["rank", "value", "number"]).index]


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def write_trials(study: optuna.Study, settings: Settings) -> Path:
    """Write trials.csv into the study's folder."""
    path = settings.folder / "trials.csv"
    with replacing(path) as partial:
        trials_frame(study, settings).to_csv(partial, index=False)
    return path


@dataclass(frozen=True)
class _Plot:
    """A plot of the page."""

    title: str
    about: str
    figure: Callable[[], Any]
    lacks: str


def write_page(study: optuna.Study, settings: Settings, command: str) -> Path:
    """Write study.html into the study's folder: the plots in one file that loads nothing else."""
    from plotly.offline import get_plotlyjs

    plots, left_out = [], []
    for plot in _plots(study, settings):
        if plot.lacks:
            left_out.append(f"{plot.title}: left out because it needs {plot.lacks}.")
            continue
        try:
            drawn = plot.figure().update_layout(title=None, template="plotly_white", margin={"t": 30})
        except (ValueError, RuntimeError) as error:
            # Days of training must not end without a table because of a plot.
            left_out.append(f"{plot.title}: left out because Optuna cannot draw it ({error}).")
            continue
        html = drawn.to_html(include_plotlyjs=False, full_html=False, config={"displaylogo": False})
        plots.append({"title": plot.title, "about": plot.about, "html": Markup(html)})
    frame = _in_order(trials_frame(study, settings), settings)
    best = chosen_trial(study)
    rows = [{name: _cell(value) for name, value in row.items()} for row in frame.to_dict("records")]
    content = {
        "name": study.study_name,
        "settings": settings,
        "best": best,
        "trainer": best.user_attrs["trainer"] if best else "",
        "command": command,
        "warnings": warnings_of(study, settings),
        "repeats": [_repeat_cells(one) for one in repeated(study)],
        "again": _again(study),
        "counts": _counts(frame[frame["repeat_of"].isna()]),
        "n_repeats": count(int(frame["repeat_of"].notna().sum()), "repetition"),
        "plots": plots,
        "left_out": left_out,
        "columns": list(frame.columns),
        "rows": rows,
        # Only its own end tag ends a script element, and plotly.js holds none.
        "plotly": Markup(get_plotlyjs()) if plots else "",
    }
    path = settings.folder / "study.html"
    with replacing(path) as partial:
        partial.write_text(page_environment(_ASSETS).get_template("study.html").render(content), encoding="utf-8")
    return path


def _cell(value: Any) -> str:
    if pd.isna(value):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _counts(frame: pd.DataFrame) -> str:
    counts = frame["state"].value_counts()
    return ", ".join(f"{counts[state]} {state}" for state in _STATES.values() if state in counts.index)


def _plots(study: optuna.Study, settings: Settings) -> list[_Plot]:
    from optuna import visualization

    # Repetitions are no part of the search, and the defaults may lie outside of the ranges.
    searched = copied(study, is_search)
    drawn = copied(study, lambda trial: is_search(trial) and len(trial.params) == len(settings.space.names))
    complete = drawn.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    n_tuned, text = len(settings.space.names), settings.objective.text
    differ = len({trial.value for trial in complete}) > 1
    varied = sum(len({trial.params.get(name) for trial in complete}) > 1 for name in settings.space.names)
    some = "" if complete else "a complete trial"
    enough = "" if len(complete) > 1 and differ and varied else "two trials that differ in options and objective"
    pairs = enough or ("" if n_tuned > 1 and varied > 1 else "two options that vary")
    training = "" if any(trial.intermediate_values for trial in study.get_trials(deepcopy=False)) else "an epoch's end"
    return [
        _Plot(
            "History",
            "Every complete trial, and the best value so far.",
            lambda: visualization.plot_optimization_history(searched, target_name=text),
            some,
        ),
        _Plot(
            "Importance",
            "The share of the objective's variation that each option explains, by PED-ANOVA.",
            lambda: visualization.plot_param_importances(drawn, target_name=text),
            enough,
        ),
        _Plot(
            "Options",
            "The objective against each option; darker trials are later.",
            lambda: visualization.plot_slice(drawn, target_name=text),
            some,
        ),
        _Plot(
            "Pairs of options",
            "Interpolated between the trials (dots); with few trials, the landscape between them is a guess.",
            lambda: visualization.plot_contour(drawn, target_name=text).update_layout(height=200 + 150 * n_tuned),
            pairs,
        ),
        _Plot(
            "Trainings",
            "The running mean of nnU-Net's pseudo Dice after each epoch, of pruned trainings too"
            + ("." if settings.objective.maximise else ", negated because lower is better here."),
            lambda: visualization.plot_intermediate_values(searched).update_layout(
                xaxis_title="epoch", yaxis_title="pseudo Dice"
            ),
            training,
        ),
    ]
