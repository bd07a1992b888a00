"""The command `nnunet-dro tune`, which imports what it needs when it is called."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnunet_dro.commands.completion import complete_trainer
from nnunet_dro.commands.shared import (
    Configuration,
    Dataset,
    Plans,
    TrainingDevice,
    argument,
    takes,
)
from nnunet_dro.commands.shared import option as _option  # a name that a field has
from nnunet_dro.naming import extra_cure
from nnunet_dro.nnunet.command import best_device, find_command
from nnunet_dro.progress_bar import progress_bar

if TYPE_CHECKING:
    import optuna
    from rich.console import Console

    from nnunet_dro.nnunet.command import SafeStop
    from nnunet_dro.tuning.study import Settings

_EXTRA = ("filelock", "optuna", "plotly", "sqlalchemy")  # Packages that the extra `tune` installs.

#: Shortest trainings that are pruned by default: a pruned one saves little, and the Gaussian
#: process learns nothing from it.
_PRUNING_EPOCHS = 20


class Sampler(str, Enum):
    """The samplers: a Gaussian process, or a tree-structured Parzen estimator."""

    GP = "gp"
    TPE = "tpe"


@dataclass(frozen=True, kw_only=True)
class _Options:
    dataset: Dataset
    configuration: Configuration
    fold: Annotated[str, argument("Fold whose validation cases are scored: a number, or all.")]
    trainer: Annotated[
        str,
        _option(
            "Trainer to tune, such as DRO or GroupDRO_site; options in its name stay fixed.",
            autocompletion=complete_trainer,
        ),
    ]
    option: Annotated[
        list[str] | None,
        _option(
            "Option to tune: NAME:LOW:HIGH, NAME:LOW:HIGH:log, "
            "or a word such as chi2 to try with and without."
        ),
    ] = None
    objective: Annotated[
        str,
        _option(
            "Statistic to optimise, such as mean, p10 of iou, or p10 by centre worst (or mean)."
        ),
    ] = "mean"
    trials: Annotated[
        int,
        _option("Number of trials that have to finish, including those of earlier starts.", min=1),
    ] = 20
    epochs: Annotated[
        int | None, _option("Epochs of every training; default: as in the trainer's name.")
    ] = None
    iterations: Annotated[
        int | None, _option("Iterations per epoch; default: as in the trainer's name.")
    ] = None
    plans: Plans = "nnUNetPlans"
    device: TrainingDevice = None
    cases: Annotated[Path | None, _option("Case table; default: cases.csv of the dataset.")] = None
    study: Annotated[
        str | None, _option("Name of the study; default: trainer, plans, configuration and fold.")
    ] = None
    storage: Annotated[
        str | None,
        _option(
            "URL of a database that several machines share; default: a file in the study's folder."
        ),
    ] = None
    sampler: Annotated[
        Sampler,
        _option("Sampler of the options: Gaussian process or tree-structured Parzen estimator."),
    ] = Sampler.GP
    seed: Annotated[int, _option("Random seed of the sampler.", min=0)] = 0
    pruning: Annotated[
        bool | None,
        _option(
            "Stop trainings whose pseudo Dice stays below the median; "
            f"default: from {_PRUNING_EPOCHS} epochs on.",
            "--pruning/--no-pruning",
        ),
    ] = None
    repeat: Annotated[
        int,
        _option(
            "How often to train each of the best three again at the end; 0 for not at all.", min=0
        ),
    ] = 2


@takes(_Options)
def tune(options: _Options) -> None:
    """Search for the best options of a trainer.

    Each trial is a training, scored on the fold's validation cases.

    It needs the extra "tune": pip install "nnunet-dro[tune]", or in a clone pip install ".[tune]".
    """
    _check_extra()

    from nnunet_dro.files.output_folder import check_writable
    from nnunet_dro.nnunet.training import find_target
    from nnunet_dro.tuning.objective import check_objective, parse_objective
    from nnunet_dro.tuning.space import parse_space
    from nnunet_dro.tuning.study import Settings

    objective = parse_objective(options.objective)
    target = find_target(options.dataset, options.configuration, options.fold, plans=options.plans)
    space = parse_space(
        options.trainer,
        options.option or [],
        epochs=options.epochs,
        iterations=options.iterations,
    )
    cases = options.cases or target.cases
    check_objective(objective, cases, target.validation_cases())
    find_command("nnUNetv2_train")

    name = options.study
    if not name:
        trainer = space.trainer.removeprefix("nnUNetTrainer")
        name = f"{trainer}__{options.plans}__{options.configuration}__fold_{target.fold}"
    if not name.strip(" .") or set(name) & set("/\\:\n"):
        raise ValueError(
            f"`study` must be usable as the name of a folder, got {name!r}. Leave out / \\ and :."
        )
    folder = target.results / "tuning" / name
    check_writable(folder)

    prune = options.pruning
    if prune is None:
        prune = space.fixed.epochs >= _PRUNING_EPOCHS
    settings = Settings(
        target=target,
        space=space,
        objective=objective,
        cases=cases,
        device=best_device(options.device and options.device.value),
        n_trials=options.trials,
        sampler=options.sampler.value,
        seed=options.seed,
        prune=prune,
        folder=folder,
        is_shared=options.storage is not None,
        n_repeats=options.repeat,
    )
    _tune(settings, name, options.storage)


def _check_extra() -> None:
    """Check that everything is installed, including what draws the plots after days of training."""
    from importlib import import_module

    for name in _EXTRA:
        try:
            import_module(name)
        except ImportError as error:
            raise ValueError(
                f"`nnunet-dro tune` needs {name}, which cannot be imported ({error}). "
                f"{extra_cure('tune')}"
            ) from error


def _tune(settings: "Settings", name: str, storage: str | None) -> None:
    """Run trials, and write and print the results so far, whatever ends them."""
    import warnings
    from contextlib import nullcontext

    import optuna

    from nnunet_dro.nnunet.command import SafeStop
    from nnunet_dro.tuning import storage as storages
    from nnunet_dro.tuning.study import about

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    settings.folder.mkdir(parents=True, exist_ok=True)
    topic = about(settings.space, settings.target, settings.objective)
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


def _run(study: "optuna.Study", settings: "Settings", safe_stop: "SafeStop") -> None:
    """Run trials with a bar of progress, and report the results so far, whatever ends them."""
    from rich.console import Console

    from nnunet_dro.tuning.display import Display
    from nnunet_dro.tuning.report import write_trials
    from nnunet_dro.tuning.storage import fail_what_was_left_running
    from nnunet_dro.tuning.study import Tuner

    console = Console(stderr=True)
    try:
        with progress_bar("Tuning", console=console) as progress:
            display = Display(console, progress)
            if not settings.is_shared:
                for number in fail_what_was_left_running(study):
                    display.note(f"trial {number}: was killed; it continues where it stopped.")
            tuner = Tuner(study, settings, display, safe_stop)
            tuner.run(after_each=lambda: write_trials(study, settings))
    finally:
        _report(study, settings, Console(highlight=False, soft_wrap=True))


def _report(study: "optuna.Study", settings: "Settings", console: "Console") -> None:
    """Write and print the results so far.

    The last line is the name of the best trainer alone, if there is one.
    """
    from nnunet_dro.tuning.report import (
        repeats_table,
        trials_table,
        warnings_of,
        write_page,
        write_trials,
    )
    from nnunet_dro.tuning.trials import chosen_trial

    best = chosen_trial(study)
    trainer = best.user_attrs["trainer"] if best else ""
    command = settings.target.prediction(trainer) if best else ""
    paths = (write_trials(study, settings), write_page(study, settings, command))

    console.print(trials_table(study, settings))
    repeats = repeats_table(study, settings)
    if repeats is not None:
        console.print(repeats)
    for sentence in warnings_of(study, settings):
        typer.echo(f"Warning: {sentence}")
    for path in paths:
        typer.echo(path)
    if best:
        typer.echo(trainer)
