"""A session of a study: trials run, and the results so far are shown, whatever ends them."""

import warnings
from contextlib import nullcontext
from typing import Any

import optuna
from rich.console import Console

from nnunet_dro.nnunet.command import SafeStop
from nnunet_dro.progress_bar import progress_bar
from nnunet_dro.trainers.checkpoint import default_rule
from nnunet_dro.tuning import storage as storages
from nnunet_dro.tuning.display import Display
from nnunet_dro.tuning.objective import strata_for
from nnunet_dro.tuning.report import (
    repeats_table,
    trials_table,
    warnings_of,
    write_page,
    write_trials,
)
from nnunet_dro.tuning.study import Settings, Tuner
from nnunet_dro.tuning.trials import chosen_trial


def run_study(settings: Settings, name: str, storage: str | None) -> None:
    """Run trials, and write and print the results so far, whatever ends them.

    Args:
        settings: The settings of the study.
        name: The name of the study.
        storage: The URL of a database that several machines share; None for a file in its folder.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    settings.folder.mkdir(parents=True, exist_ok=True)
    topic = about(settings)
    maximise = settings.objective.maximise
    with (
        warnings.catch_warnings(),
        nullcontext() if settings.is_shared else storages.alone(settings.folder),
        SafeStop() as safe_stop,
    ):
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        opened = storages.open_storage(storage, settings.folder)
        try:
            with storages.closing(opened):
                study = storages.open_study(opened, name, topic, maximise=maximise)
                _run(study, settings, safe_stop)
        except storages.STORAGE_ERRORS as error:
            raise ValueError(
                f"`storage` must stay reachable, got {storages.message_of(error)}. Repeat the "
                "command to continue."
            ) from error


def _run(study: optuna.Study, settings: Settings, safe_stop: SafeStop) -> None:
    """Run trials with a bar of progress, and report the results so far, whatever ends them."""
    console = Console(stderr=True)
    try:
        with progress_bar("Tuning", console=console) as progress:
            display = Display(console, progress)
            if not settings.is_shared:
                for number in storages.fail_what_was_left_running(study):
                    display.note(f"trial {number}: was killed; it continues where it stopped.")
            tuner = Tuner(study, settings, display, safe_stop)
            tuner.run(after_each=lambda: write_trials(study, settings))
    finally:
        _report(study, settings)


def _report(study: optuna.Study, settings: Settings) -> None:
    """Write and print the results so far.

    The last line is the name of the best trainer alone, if there is one.
    """
    best = chosen_trial(study)
    trainer = best.user_attrs["trainer"] if best else ""
    command = settings.target.prediction(trainer) if best else ""
    paths = (write_trials(study, settings), write_page(study, settings, command))

    # Names and paths are printed as they are.
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    console.print(trials_table(study, settings))
    repeats = repeats_table(study, settings)
    if repeats is not None:
        console.print(repeats)
    for sentence in warnings_of(study, settings):
        console.print(f"Warning: {sentence}")
    for path in paths:
        console.print(str(path))
    if best:
        console.print(trainer)


def about(settings: Settings) -> dict[str, Any]:
    """What a study is about; if any of this differs, it is another study."""
    space = settings.space
    target = settings.target
    objective = settings.objective
    options = [interval.text for interval in space.ranges]
    options += [choice.name for choice in space.choices]
    rule = default_rule(space.fixed)
    validated = target.divided_cases()
    cases = target.validation_cases()
    # Until nnU-Net divides the cases, those of a fold are not known, unless it has all.
    are_known = bool(validated) or target.fold == "all"
    return {
        "dataset": target.dataset,
        "configuration": target.configuration,
        "fold": target.fold,
        "plans": target.plans,
        "trainer": space.trainer,
        "options": sorted(options),
        "objective": objective.text,
        # Under the same names, another version draws otherwise.
        **({"rule": rule} if rule else {}),
        **({storages.VALIDATED: validated} if validated else {}),
        **({storages.STRATA: strata_for(objective, settings.cases, cases)} if are_known else {}),
    }
