"""The command `nnunet-dro tune`; what it needs is imported once it is called."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnunet_dro.nnunet.command import Device, find_command
from nnunet_dro.tuning.sampler import Sampler

if TYPE_CHECKING:
    import optuna
    from rich.console import Console

    from nnunet_dro.nnunet.safe_stop import SafeStop
    from nnunet_dro.tuning.study import Settings

#: What the extra `tune` installs.
_EXTRA = ("filelock", "optuna", "plotly", "sqlalchemy")


def tune(
    dataset: Annotated[str, typer.Argument(help="Name or number of a preprocessed dataset.")],
    configuration: Annotated[str, typer.Argument(help="Of the plans, such as 3d_fullres.")],
    fold: Annotated[str, typer.Argument(help="Whose validation cases are scored.")],
    trainer: Annotated[str, typer.Option(help="Such as GILS or DRO_noIS; its options stay as they are.")],
    option: Annotated[
        list[str] | None, typer.Option(help="NAME:LOW:HIGH or NAME:LOW:HIGH:log; a word (chi2) for with and without.")
    ] = None,
    objective: Annotated[
        str, typer.Option(help="Such as mean, p10 of iou, or p10 by centre worst (or mean).")
    ] = "mean",
    trials: Annotated[int, typer.Option(help="That have to finish, those of earlier starts included.")] = 20,
    epochs: Annotated[int | None, typer.Option(help="Of every training; default: as the trainer's name says.")] = None,
    iterations: Annotated[int | None, typer.Option(help="Per epoch; default: as the trainer's name says.")] = None,
    plans: Annotated[str, typer.Option("--plans", "-p", help="Name of the plans.")] = "nnUNetPlans",
    device: Annotated[Device, typer.Option(help="Where to train.")] = Device.CUDA,
    cases: Annotated[
        Path | None, typer.Option(help="Case table; default: the dataset's cases.csv.", readable=False)
    ] = None,
    study: Annotated[str | None, typer.Option(help="Name of the study; default: from trainer and fold.")] = None,
    storage: Annotated[
        str | None, typer.Option(help="URL of a database that several machines share; default: a file.")
    ] = None,
    sampler: Annotated[
        Sampler, typer.Option(help="Gaussian process or tree-structured Parzen estimator.")
    ] = Sampler.GP,
    seed: Annotated[int, typer.Option(min=0, help="Of the sampler.")] = 0,
    pruning: Annotated[bool, typer.Option(help="Stop trainings whose pseudo Dice stays below the median.")] = True,
) -> None:
    """Look for the best options of a trainer: each trial is a training, scored on the fold's validation cases."""
    _check_extra()
    from nnunet_dro.tuning.objective import check_objective, parse_objective
    from nnunet_dro.tuning.space import parse_space
    from nnunet_dro.tuning.study import Settings
    from nnunet_dro.tuning.target import check_writable, find_target

    if trials < 1:
        raise ValueError(f"`trials` must be at least 1, got {trials}. Give --trials.")
    aim = parse_objective(objective)
    target = find_target(dataset, configuration, fold, plans=plans)
    space = parse_space(trainer, option or (), epochs=epochs, iterations=iterations)
    table = cases or target.cases
    check_objective(aim, table, target.validation_cases())
    find_command("nnUNetv2_train")
    name = study or f"{space.trainer.removeprefix('nnUNetTrainer')}__{plans}__{configuration}__fold_{target.fold}"
    if not name.strip(" .") or set(name) & set("/\\:\n"):
        raise ValueError(f"`study` must be a name that a folder can have, got {name!r}. Leave out / \\ and :.")
    folder = target.results / "tuning" / name
    check_writable(folder)
    shared = storage is not None
    _tune(
        Settings(target, space, aim, table, device.value, trials, sampler, seed, pruning, folder, shared), name, storage
    )


def _check_extra() -> None:
    """Check that what only this command needs is installed, the plots at the end of days of training included."""
    from importlib import import_module

    for name in _EXTRA:
        try:
            import_module(name)
        except ImportError as error:
            cure = 'pip install "nnunet-dro[tune]"'
            raise ValueError(f"`nnunet-dro tune` needs {name}, which cannot be imported ({error}): {cure}") from error


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
        topic = about(settings.space, settings.target, settings.objective)
        study = storages.open_study(opened, name, topic, maximise=settings.objective.maximise)
        try:
            _run(study, settings, safe_stop)
        except storages.STORAGE_ERRORS as error:
            cure = "Give the same command again to go on."
            raise ValueError(f"`storage` must stay within reach, got {storages.said(error)}. {cure}") from error


def _run(study: "optuna.Study", settings: "Settings", safe_stop: "SafeStop") -> None:
    """Run trials, and write and print what there is, whatever ends them."""
    from rich.console import Console

    from nnunet_dro.tuning.progress import trial_display
    from nnunet_dro.tuning.report import write_trials
    from nnunet_dro.tuning.storage import fail_what_was_left_running
    from nnunet_dro.tuning.study import Tuner

    try:
        with trial_display(Console(stderr=True)) as display:
            for number in [] if settings.is_shared else fail_what_was_left_running(study):
                display.note(f"trial {number}: was killed; it goes on where it stopped.")
            Tuner(study, settings, display, safe_stop).run(lambda: write_trials(study, settings))
    finally:
        _report(study, settings, Console(highlight=False, soft_wrap=True))


def _report(study: "optuna.Study", settings: "Settings", console: "Console") -> None:
    """Write and print what there is; the best trainer's name alone on the last line."""
    from nnunet_dro.tuning.report import trials_table, write_page, write_trials
    from nnunet_dro.tuning.study import best_trial

    best, target = best_trial(study), settings.target
    trainer = best.user_attrs["trainer"] if best else ""
    plans = "" if target.plans == "nnUNetPlans" else f" -p {target.plans}"
    command = f"nnUNetv2_train {target.dataset} {target.configuration} {target.fold}{plans} -tr {trainer}"
    table, page = write_trials(study, settings), write_page(study, settings, command if best else "")
    console.print(trials_table(study, settings))
    for path in (table, page):
        typer.echo(path)
    if best:
        typer.echo(trainer)
