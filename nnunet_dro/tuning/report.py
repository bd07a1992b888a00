"""A study as a table, a file of trials and a page of plots."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
from markupsafe import Markup
from optuna.trial import FrozenTrial, TrialState
from rich.console import RenderableType

from nnunet_dro.files.output_folder import replacing
from nnunet_dro.naming import NO_VALUE, count
from nnunet_dro.pages.document import Block, Column, Figure, Heading, Note, Prose, Table
from nnunet_dro.pages.html import CONTENT_SECURITY_POLICY, page
from nnunet_dro.pages.svg import shortened
from nnunet_dro.pages.terminal import printed
from nnunet_dro.tuning.study import Settings
from nnunet_dro.tuning.trials import REPEAT_OF, Repeated, chosen_trial, copied, is_search, repeated

_STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}

_SILENT = "no sign of life"  # The reason of a failed trial that recorded none: its machine no longer responds.


def trials_frame(study: optuna.Study, settings: Settings) -> pd.DataFrame:
    """A row per trial, as in trials.csv.

    ``pseudo_dice`` is the running mean after the last of its ``epochs``.
    """
    rows = [_row(trial, settings) for trial in study.get_trials(deepcopy=False)]
    columns = ["number", "state", "value", *settings.space.names]
    columns += ["trainer", "repeat_of", "epochs", "pseudo_dice", "minutes", "reason"]
    return pd.DataFrame(rows, columns=columns).astype({"repeat_of": "Int64"})


def _row(trial: FrozenTrial, settings: Settings) -> dict[str, Any]:
    attributes = trial.user_attrs
    last = trial.last_step
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
        "pseudo_dice": None if last is None else round(abs(trial.intermediate_values[last]), 4),
        "minutes": round(trial.duration.total_seconds() / 60, 2) if trial.duration else None,
        "reason": reason if is_over else "",
    }


def trials_table(study: optuna.Study, settings: Settings) -> RenderableType:
    """The table of the search: the best trials first, then the pruned ones, then the others."""
    frame = _in_order(trials_frame(study, settings), settings)
    records = frame[frame["repeat_of"].isna()].to_dict("records")
    columns: list[Any] = [
        (Column("trial"), lambda row: str(row["number"])),
        (
            Column(settings.objective.text),
            lambda row: row["state"] if pd.isna(row["value"]) else f"{row['value']:.4f}",
        ),
        *(
            (Column(name), lambda row, name=name: _shown(row[name]))
            for name in settings.space.names
        ),
        (Column("min"), lambda row: "" if pd.isna(row["minutes"]) else f"{row['minutes']:.1f}"),
    ]
    if any(row["reason"] for row in records):
        columns.append((Column("reason", "text"), lambda row: shortened(row["reason"], 80)))
    return printed([Table.of(f"{study.study_name}: {settings.objective.text}", columns, records)])


def repeats_table(study: optuna.Study, settings: Settings) -> RenderableType | None:
    """The table of the trainers that were trained again, the best mean first.

    None if there is none.
    """
    found = repeated(study)
    return (
        printed([_repeats(found, f"The best, trained again: {settings.objective.text}")])
        if found
        else None
    )


def _repeats(found: Sequence[Repeated], title: str) -> Table:
    columns: list[Any] = [
        (Column("trial"), lambda one: str(one.trial.number)),
        (Column("in the search"), lambda one: f"{one.trial.value:.4f}"),
        (Column("again"), lambda one: " ".join(f"{value:.4f}" for value in one.values)),
        (Column("mean"), lambda one: f"{one.mean:.4f}"),
        (Column("SD"), lambda one: f"{one.spread:.4f}" if len(one.values) > 1 else NO_VALUE),
        (Column("trainer", "text"), lambda one: one.trainer),
    ]
    return Table.of(title, columns, found)


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
    return frame.iloc[np.lexsort((frame["number"], value, rank))]


def _shown(value: Any, form: str = "g") -> str:
    return "" if pd.isna(value) else f"{value:{form}}" if isinstance(value, float) else str(value)


def write_trials(study: optuna.Study, settings: Settings) -> Path:
    """Write trials.csv into the study's folder."""
    path = settings.folder / "trials.csv"
    with replacing(path) as partial:
        trials_frame(study, settings).to_csv(partial, index=False)
    return path


def write_page(study: optuna.Study, settings: Settings, command: str) -> Path:
    """Write study.html into the study's folder: the plots in one file that loads nothing else."""
    frame = _in_order(trials_frame(study, settings), settings)
    names: list[Any] = [
        (Column(name.replace("_", " "), "text"), lambda row, name=name: _shown(row[name], ".4g"))
        for name in frame.columns
    ]
    target = settings.target
    objective = settings.objective
    states = frame.loc[frame["repeat_of"].isna(), "state"].value_counts()
    counts = (
        ", ".join(f"{states[state]} {state}" for state in _STATES.values() if state in states.index)
        or "none"
    )
    if n_repeats := int(frame["repeat_of"].notna().sum()):
        counts += f", and {count(n_repeats, 'repetition')}"
    better = "higher" if objective.maximise else "lower"
    where = f"{target.dataset}, {target.configuration}, {target.plans}, fold {target.fold}"
    written = page(
        [
            *_best(study, settings, command),
            *_drawn(study, settings),
            Heading("Trials", anchor="trials", short="Trials"),
            Table.of("Trials", names, frame.to_dict("records")),
        ],
        [],
        about={},
        # Plotly makes a picture to download by way of an address inside the browser.
        content_security_policy=Markup(CONTENT_SECURITY_POLICY.replace("data:", "data: blob:")),
        kind="nnunet-dro · tuning on validation cases",
        title=f"{study.study_name} · nnunet-dro tune",
        heading=study.study_name,
        lede=f"{objective.text}, {better} is better. {where}. Trials: {counts}.",
    )
    path = settings.folder / "study.html"
    with replacing(path) as partial_file:
        partial_file.write_text(written, encoding="utf-8")
    return path


def _best(study: optuna.Study, settings: Settings, command: str) -> Iterator[Block]:
    """The best trial, and what its further trainings gave."""
    best = chosen_trial(study)
    found = repeated(study)
    yield Heading("The best", anchor="best", short="The best")
    if best is None:
        yield Prose("No trial is complete.", kind="")
    else:
        value = f"{best.value:.4f}"
        for one in found:
            if one.trial.number == best.number:
                spread = f" (SD {one.spread:.4f})" if len(one.values) > 1 else ""
                value += f" in the search and {one.mean:.4f}{spread} in {count(len(one.values), 'further training')}"
        yield Prose(
            f"The best is trial {best.number}, with {value}: {best.user_attrs['trainer']}",
            kind="first",
        )
        yield Prose(command, kind="command")
        yield from map(Note, warnings_of(study, settings))
    yield Prose(
        "The best of many trials does better on these validation cases than it will on new ones: report its result on "
        "other data, or on other folds."
    )
    if found:
        yield Heading("The best, trained again", anchor="again", short="Trained again")
        yield Prose(
            "Each of these trainers was trained again, with other random numbers. The mean and the standard deviation "
            "(SD) are those of the further trainings alone: the value in the search was chosen because it is "
            f"{'high' if settings.objective.maximise else 'low'}. The best mean decides, once all have as many."
        )
        yield _repeats(found, "The best, trained again")


def _drawn(study: optuna.Study, settings: Settings) -> Iterator[Block]:
    """The plots after the script that draws them, and which are left out."""
    from plotly.offline import get_plotlyjs

    plots: list[Block] = []
    left_out = []
    for title, about, lacks, plot in _plots(study, settings):
        if lacks:
            left_out.append(f"{title}: left out because it needs {lacks}.")
            continue
        try:
            drawn = plot().update_layout(title=None, template="plotly_white", margin={"t": 30})
        except (ValueError, RuntimeError) as error:
            # Days of training must not end without a table because of a plot.
            left_out.append(f"{title}: left out because Optuna cannot draw it ({error}).")
            continue
        html = drawn.to_html(include_plotlyjs=False, full_html=False, config={"displaylogo": False})
        heading = Heading(title, anchor=title.lower().replace(" ", "-"), short=title)
        plots += [heading, Prose(about), Figure(drawing=Markup(html))]
    if plots:
        # Only its own end tag ends a script element, and plotly.js holds none.
        yield Figure(drawing=Markup(f"<script>{get_plotlyjs()}</script>"))
    yield from plots
    yield from map(Prose, left_out)


def _plots(
    study: optuna.Study, settings: Settings
) -> list[tuple[str, str, str, Callable[[], Any]]]:
    """The title of each plot, what it shows, what is lacking for it (empty if nothing), and how it is made."""
    from optuna import visualization

    # Repetitions are no part of the search, and the defaults may lie outside of the ranges.
    searched = copied(study, is_search)
    drawn = copied(
        study, lambda trial: is_search(trial) and len(trial.params) == len(settings.space.names)
    )
    complete = drawn.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    n_tuned = len(settings.space.names)
    text = settings.objective.text
    differ = len({trial.value for trial in complete}) > 1
    varied = sum(
        len({trial.params.get(name) for trial in complete}) > 1 for name in settings.space.names
    )
    some = "" if complete else "a complete trial"
    enough = (
        ""
        if len(complete) > 1 and differ and varied
        else "two trials that differ in options and objective"
    )
    pairs = enough or ("" if n_tuned > 1 and varied > 1 else "two options that vary")
    training = (
        ""
        if any(trial.intermediate_values for trial in study.get_trials(deepcopy=False))
        else "an epoch's end"
    )
    training_about = (
        "The running mean of nnU-Net's pseudo Dice after each epoch, of pruned trainings too"
    )
    training_about += (
        "." if settings.objective.maximise else ", negated because lower is better here."
    )
    importance = "The share of the objective's variation that each option explains, by PED-ANOVA."
    between = "Interpolated between the trials (dots); with few trials, the landscape between them is a guess."

    def contour() -> Any:
        return visualization.plot_contour(drawn, target_name=text).update_layout(
            height=200 + 150 * n_tuned
        )

    def trainings() -> Any:
        axes = {"xaxis_title": "epoch", "yaxis_title": "pseudo Dice"}
        return visualization.plot_intermediate_values(searched).update_layout(**axes)

    history = partial(visualization.plot_optimization_history, searched, target_name=text)
    slices = partial(visualization.plot_slice, drawn, target_name=text)
    return [
        ("History", "Every complete trial, and the best value so far.", some, history),
        (
            "Importance",
            importance,
            enough,
            partial(visualization.plot_param_importances, drawn, target_name=text),
        ),
        ("Options", "The objective against each option; darker trials are later.", some, slices),
        ("Pairs of options", between, pairs, contour),
        ("Trainings", training_about, training, trainings),
    ]
