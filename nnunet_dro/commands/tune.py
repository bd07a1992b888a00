"""The command `nnunet-dro tune`, which imports what it needs when it is called."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnunet_dro.commands.completion import complete_trainer
from nnunet_dro.commands.shared import takes
from nnunet_dro.naming import extra_cure
from nnunet_dro.nnunet.command import Device, best_device, find_command
from nnunet_dro.progress_bar import progress_bar
from nnunet_dro.tuning.sampler import Sampler

if TYPE_CHECKING:
    import optuna
    from rich.console import Console

    from nnunet_dro.nnunet.safe_stop import SafeStop
    from nnunet_dro.tuning.study import Settings

#: Packages that the extra `tune` installs.
_EXTRA = ("filelock", "optuna", "plotly", "sqlalchemy")

#: Shortest trainings that are pruned by default: a pruned one saves little, and the Gaussian process learns nothing
#: from it.
_PRUNING_EPOCHS = 20


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """What `tune` takes."""

    dataset: Annotated[str, typer.Argument(help="Name or number of a preprocessed dataset.")]
    configuration: Annotated[str, typer.Argument(help="Configuration to train, such as 3d_fullres.")]
    fold: Annotated[str, typer.Argument(help="Fold whose validation cases are scored: a number, or all.")]
    trainer: Annotated[
        str,
        typer.Option(
            help="Trainer to tune, such as GILS or HWS_noIS; options in its name stay fixed.",
            autocompletion=complete_trainer,
        ),
    ]
    option: Annotated[
        list[str],
        typer.Option(
            help="Option to tune: NAME:LOW:HIGH, NAME:LOW:HIGH:log, or a word such as chi2 to try with and without."
        ),
    ] = field(default_factory=list)
    objective: Annotated[
        str, typer.Option(help="Statistic to optimise, such as mean, p10 of iou, or p10 by centre worst (or mean).")
    ] = "mean"
    trials: Annotated[
        int, typer.Option(help="Number of trials that have to finish, including those of earlier starts.")
    ] = 20
    epochs: Annotated[int | None, typer.Option(help="Epochs of every training; default: as in the trainer's name.")] = (
        None
    )
    iterations: Annotated[int | None, typer.Option(help="Iterations per epoch; default: as in the trainer's name.")] = (
        None
    )
    plans: Annotated[str, typer.Option("--plans", "-p", help="Name of the plans.")] = "nnUNetPlans"
    device: Annotated[
        Device | None, typer.Option(help="Device to train on; default: cuda if there is one, else cpu.")
    ] = None
    cases: Annotated[
        Path | None, typer.Option(help="Case table; default: cases.csv of the dataset.", readable=False)
    ] = None
    study: Annotated[
        str | None, typer.Option(help="Name of the study; default: made from trainer, plans, configuration and fold.")
    ] = None
    storage: Annotated[
        str | None,
        typer.Option(help="URL of a database that several machines share; default: a file in the study's folder."),
    ] = None
    sampler: Annotated[
        Sampler, typer.Option(help="Sampler of the options: Gaussian process or tree-structured Parzen estimator.")
    ] = Sampler.GP
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the sampler.")] = 0
    pruning: Annotated[
        bool | None,
        typer.Option(
            "--pruning/--no-pruning",
            help=f"Stop trainings whose pseudo Dice stays below the median; default: from {_PRUNING_EPOCHS} epochs on.",
        ),
    ] = None
    repeat: Annotated[
        int, typer.Option(help="How often to train each of the best three again at the end; 0 for not at all.")
    ] = 2

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise ValueError(f"`trials` must be at least 1, got {self.trials}. Give --trials.")
        if self.repeat < 0:
            cure = "Give --repeat 0 to train nothing again."
            raise ValueError(f"`repeat` must be 0 or more, got {self.repeat}. {cure}")


@takes(TuneOptions)
def tune(options: TuneOptions) -> None:
    """Search for the best options of a trainer; each trial is a training, scored on the fold's validation cases.

    It needs the extra "tune": pip install "nnunet-dro[tune]", or in a clone pip install ".[tune]".
    """
    _check_extra()
    from nnunet_dro.nnunet.target import check_writable, find_target
    from nnunet_dro.tuning.objective import check_objective, parse_objective
    from nnunet_dro.tuning.parsing import parse_space
    from nnunet_dro.tuning.study import Settings

    aim = parse_objective(options.objective)
    target = find_target(options.dataset, options.configuration, options.fold, plans=options.plans)
    space = parse_space(options.trainer, options.option, epochs=options.epochs, iterations=options.iterations)
    table = options.cases or target.cases
    check_objective(aim, table, target.validation_cases())
    find_command("nnUNetv2_train")
    of_fold = f"{options.plans}__{options.configuration}__fold_{target.fold}"
    name = options.study or f"{space.trainer.removeprefix('nnUNetTrainer')}__{of_fold}"
    if not name.strip(" .") or set(name) & set("/\\:\n"):
        raise ValueError(f"`study` must be usable as the name of a folder, got {name!r}. Leave out / \\ and :.")
    folder = target.results / "tuning" / name
    check_writable(folder)
    settings = Settings(
        target=target,
        space=space,
        objective=aim,
        cases=table,
        device=best_device(options.device and options.device.value),
        n_trials=options.trials,
        sampler=options.sampler,
        seed=options.seed,
        prune=space.fixed.epochs >= _PRUNING_EPOCHS if options.pruning is None else options.pruning,
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
            needed = f"`nnunet-dro tune` needs {name}, which cannot be imported ({error})"
            raise ValueError(f"{needed}. {extra_cure('tune')}") from error


def _tune(settings: "Settings", name: str, storage: str | None) -> None:
    import warnings
    from contextlib import nullcontext

    import optuna

    from nnunet_dro.nnunet.safe_stop import SafeStop
    from nnunet_dro.tuning import storage as storages
    from nnunet_dro.tuning.study import about

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    settings.folder.mkdir(parents=True, exist_ok=True)
    with (
        warnings.catch_warnings(),
        nullcontext() if settings.is_shared else storages.alone(settings.folder),
        SafeStop() as safe_stop,
    ):
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        opened = storages.open_storage(storage, settings.folder)
        try:
            with storages.closing(opened):
                topic = about(settings.space, settings.target, settings.objective)
                study = storages.open_study(opened, name, topic, maximise=settings.objective.maximise)
                _run(study, settings, safe_stop)
        except storages.STORAGE_ERRORS as error:
            cure = "Repeat the command to continue."
            raise ValueError(f"`storage` must stay reachable, got {storages.message_of(error)}. {cure}") from error


def _run(study: "optuna.Study", settings: "Settings", safe_stop: "SafeStop") -> None:
    """Run trials, and write and print the results so far, whatever ends them."""
    from rich.console import Console

    from nnunet_dro.tuning.progress import Display
    from nnunet_dro.tuning.report import write_trials
    from nnunet_dro.tuning.storage import fail_what_was_left_running
    from nnunet_dro.tuning.study import Tuner

    try:
        console = Console(stderr=True)
        with progress_bar("Tuning", console=console) as progress:
            display = Display(console, progress)
            for number in [] if settings.is_shared else fail_what_was_left_running(study):
                display.note(f"trial {number}: was killed; it continues where it stopped.")
            Tuner(study, settings, display, safe_stop).run(lambda: write_trials(study, settings))
    finally:
        _report(study, settings, Console(highlight=False, soft_wrap=True))


def _report(study: "optuna.Study", settings: "Settings", console: "Console") -> None:
    """Write and print the results so far, with the name of the best trainer alone on the last line."""
    from nnunet_dro.tuning.repeats import chosen_trial
    from nnunet_dro.tuning.report import repeats_table, trials_table, warnings_of, write_page, write_trials

    best, target = chosen_trial(study), settings.target
    trainer = best.user_attrs["trainer"] if best else ""
    plans = "" if target.plans == "nnUNetPlans" else f" -p {target.plans}"
    command = f"nnUNetv2_train {target.dataset} {target.configuration} {target.fold}{plans} -tr {trainer}"
    table, page = write_trials(study, settings), write_page(study, settings, command if best else "")
    console.print(trials_table(study, settings))
    if (again := repeats_table(study, settings)) is not None:
        console.print(again)
    for sentence in warnings_of(study, settings):
        typer.echo(f"Warning: {sentence}")
    for path in (table, page):
        typer.echo(path)
    if best:
        typer.echo(trainer)
