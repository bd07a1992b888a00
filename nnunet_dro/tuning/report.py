"""A study as a table, as a file of trials and as a page."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
from markupsafe import Markup
from optuna.trial import FrozenTrial, TrialState
from rich.console import RenderableType

from nnunet_dro.files.output_folder import write_files
from nnunet_dro.naming import NO_VALUE, count
from nnunet_dro.pages.document import Block, Column, Heading, Note, Prose, Table
from nnunet_dro.pages.html import CONTENT_SECURITY_POLICY, page
from nnunet_dro.pages.svg import shortened
from nnunet_dro.pages.terminal import printed
from nnunet_dro.tuning.plots import drawn_plots
from nnunet_dro.tuning.study import Settings
from nnunet_dro.tuning.trials import (
    REPEAT_OF,
    Repeated,
    chosen_trial,
    minutes_of,
    reason_of,
    repeated_trainers,
)

_STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}


def trials_frame(study: optuna.Study, settings: Settings) -> pd.DataFrame:
    """A row per trial, as in trials.csv.

    ``pseudo_dice`` is the running mean after the last of its ``epochs``, and ``minutes`` are those
    of all its starts.
    """
    trials = study.get_trials(deepcopy=False)
    rows = [_row(trial, trials, settings) for trial in trials]
    columns = ["number", "state", "value", *settings.space.names]
    columns += ["trainer", "repeat_of", "epochs", "pseudo_dice", "minutes", "reason"]
    return pd.DataFrame(rows, columns=columns).astype({"repeat_of": "Int64"})


def _row(trial: FrozenTrial, trials: Sequence[FrozenTrial], settings: Settings) -> dict[str, Any]:
    """A row of trials.csv, with None for what the trial does not have yet."""
    attributes = trial.user_attrs
    is_complete = trial.state == TrialState.COMPLETE
    row: dict[str, Any] = {
        "number": trial.number,
        "state": _STATES[trial.state],
        "value": trial.value if is_complete else None,
        "trainer": attributes.get("trainer", ""),
        "repeat_of": attributes.get(REPEAT_OF),
        "epochs": len(trial.intermediate_values),
        "pseudo_dice": None,
        "minutes": minutes_of(trial, trials),
        "reason": reason_of(trial),
    }

    values = attributes.get("values", {})
    row |= {name: values.get(name) for name in settings.space.names}

    last = trial.last_step
    if last is not None:
        # It is negative where the objective is minimised.
        row["pseudo_dice"] = round(abs(trial.intermediate_values[last]), 4)
    return row


def trials_table(study: optuna.Study, settings: Settings) -> RenderableType:
    """The table of the search: the best trials first, then the pruned ones, then the others."""
    text = settings.objective.text
    frame = _in_order(trials_frame(study, settings), settings)
    records = frame[frame["repeat_of"].isna()].to_dict("records")

    columns: list[Any] = [
        (Column("trial"), lambda row: str(row["number"])),
        (Column(text), _value_or_state),
    ]
    columns += [(Column(name), _entry_of(name)) for name in settings.space.names]
    columns.append((Column("min"), _entry_of("minutes", ".1f")))
    if any(row["reason"] for row in records):
        columns.append((Column("reason", "text"), lambda row: shortened(row["reason"], 80)))

    return printed([Table.of(f"{study.study_name}: {text}", columns, records)])


def _value_or_state(row: Mapping[Hashable, Any]) -> str:
    """The value of a complete trial; of another one, how far it is."""
    if pd.isna(row["value"]):
        return str(row["state"])
    return f"{row['value']:.4f}"


def repeats_table(study: optuna.Study, settings: Settings) -> RenderableType | None:
    """The table of the trainers that were trained again, the best mean first; None without any."""
    trainers = repeated_trainers(study)
    if not trainers:
        return None
    return printed([_repeats(trainers, f"The best, trained again: {settings.objective.text}")])


def _repeats(trainers: Sequence[Repeated], title: str) -> Table:
    def values(trainer: Repeated) -> str:
        return " ".join(f"{value:.4f}" for value in trainer.values)

    def spread(trainer: Repeated) -> str:
        return f"{trainer.spread:.4f}" if len(trainer.values) > 1 else NO_VALUE

    columns: list[Any] = [
        (Column("trial"), lambda trainer: str(trainer.trial.number)),
        (Column("in the search"), lambda trainer: f"{trainer.trial.value:.4f}"),
        (Column("again"), values),
        (Column("mean"), lambda trainer: f"{trainer.mean:.4f}"),
        (Column("SD"), spread),
        (Column("trainer", "text"), lambda trainer: trainer.trainer),
    ]
    return Table.of(title, columns, trainers)


def warnings_of(study: optuna.Study, settings: Settings) -> list[str]:
    """Sentences about the chosen trainer: which of its values lie at the edge of their range."""
    chosen = chosen_trial(study)
    if chosen is None:
        return []

    values = chosen.user_attrs["values"]
    return [
        f"The best {tuned.name}, {_shown(values[tuned.name])}, lies at the {edge} edge of its "
        f"range {tuned.text}: better values may lie beyond. Tune again with a wider range, as "
        "another study (--study)."
        for tuned, edge in settings.space.edges(values)
    ]


def _in_order(frame: pd.DataFrame, settings: Settings) -> pd.DataFrame:
    """The trials with the best first, then the pruned ones, then the others by number."""
    rank = frame["state"].map({"complete": 0, "pruned": 1}).fillna(2)
    value = frame["value"].astype(float).fillna(0)
    if settings.objective.maximise:
        value = -value

    # The last key of the three decides first.
    return frame.iloc[np.lexsort((frame["number"], value, rank))]


def _entry_of(name: str, form: str = "g") -> Callable[[Mapping[Hashable, Any]], str]:
    """What a column of the tables has of a row: its value of this name."""
    return lambda row: _shown(row[name], form)


def _shown(value: Any, form: str = "g") -> str:
    if pd.isna(value):
        return ""
    if isinstance(value, float):
        return f"{value:{form}}"
    return str(value)


def write_trials(study: optuna.Study, settings: Settings) -> Path:
    """Write trials.csv into the study's folder."""
    text = trials_frame(study, settings).to_csv(index=False)
    write_files(settings.folder, {"trials.csv": text})
    return settings.folder / "trials.csv"


def write_page(study: optuna.Study, settings: Settings, command: str) -> Path:
    """Write study.html into the study's folder: the plots in one file that loads nothing else."""
    frame = _in_order(trials_frame(study, settings), settings)
    columns = [
        (Column(name.replace("_", " "), "text"), _entry_of(name, ".4g")) for name in frame.columns
    ]

    # Plotly makes a picture to download by way of an address inside the browser.
    policy = Markup(CONTENT_SECURITY_POLICY.replace("data:", "data: blob:"))
    written = page(
        [
            *_best(study, settings, command),
            *drawn_plots(study, settings),
            Heading("Trials", anchor="trials", short="Trials"),
            Table.of("Trials", columns, frame.to_dict("records")),
        ],
        [],
        about={},
        content_security_policy=policy,
        kind="nnunet-dro · tuning on validation cases",
        title=f"{study.study_name} · nnunet-dro tune",
        heading=study.study_name,
        lede=_lede(frame, settings),
    )

    write_files(settings.folder, {"study.html": written})
    return settings.folder / "study.html"


def _lede(frame: pd.DataFrame, settings: Settings) -> str:
    """What is optimised, on which data, and how many trials there are in which state."""
    target = settings.target
    objective = settings.objective
    is_repetition = frame["repeat_of"].notna()

    n_by_state = frame.loc[~is_repetition, "state"].value_counts()
    states = [state for state in _STATES.values() if state in n_by_state.index]
    counts = [f"{n_by_state[state]} {state}" for state in states]
    trials = ", ".join(counts) or "none"
    n_repetitions = int(is_repetition.sum())
    if n_repetitions:
        trials += f", and {count(n_repetitions, 'repetition')}"

    better = "higher" if objective.maximise else "lower"
    where = f"{target.dataset}, {target.configuration}, {target.plans}, fold {target.fold}"
    return f"{objective.text}, {better} is better. {where}. Trials: {trials}."


def _best(study: optuna.Study, settings: Settings, command: str) -> Iterator[Block]:
    """The best trial, and what its further trainings gave."""
    best = chosen_trial(study)
    trainers = repeated_trainers(study)

    yield Heading("The best", anchor="best", short="The best")
    if best is None:
        yield Prose("No trial is complete.", kind="")
    else:
        value = _value_in_words(best, trainers)
        yield Prose(
            f"The best is trial {best.number}, with {value}: {best.user_attrs['trainer']}",
            kind="first",
        )
        yield Prose(command, kind="command")
        for sentence in warnings_of(study, settings):
            yield Note(sentence)
    yield Prose(
        "The best of many trials does better on these validation cases than it will on new ones: "
        "report its result on other data, or on other folds."
    )

    if trainers:
        favoured = "high" if settings.objective.maximise else "low"
        yield Heading("The best, trained again", anchor="again", short="Trained again")
        yield Prose(
            "Each of these trainers was trained again, with other random numbers. The mean and the "
            "standard deviation (SD) are those of the further trainings alone: the value in the "
            f"search was chosen because it is {favoured}. The best mean decides, once all have as "
            "many."
        )
        yield _repeats(trainers, "The best, trained again")


def _value_in_words(trial: FrozenTrial, trainers: Sequence[Repeated]) -> str:
    """The value of a trial in the search and, if its trainer was trained again, the mean then."""
    value = f"{trial.value:.4f}"
    for trainer in trainers:
        if trainer.trial.number != trial.number:
            continue
        n_trainings = len(trainer.values)
        mean = f"{trainer.mean:.4f}"
        if n_trainings > 1:
            mean += f" (SD {trainer.spread:.4f})"
        value += f" in the search and {mean} in {count(n_trainings, 'further training')}"
    return value
