"""The command `nnunet-dro tune`, which imports what it needs when it is called."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

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
    from nnunet_dro.tuning.objective import parse_objective, strata_for
    from nnunet_dro.tuning.session import run_study
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
    strata_for(objective, cases, target.validation_cases())
    find_command("nnUNetv2_train")

    name = options.study
    if not name:
        trainer = space.trainer.removeprefix("nnUNetTrainer")
        name = f"{trainer}__{options.plans}__{options.configuration}__fold_{target.fold}"
    _check_name_of_folder(name)
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
    run_study(settings, name, options.storage)


def _check_name_of_folder(name: str) -> None:
    """Check that the name of a study can be that of its folder."""
    if not name.strip(" .") or set(name) & set("/\\:\n"):
        raise ValueError(
            f"`study` must be usable as the name of a folder, got {name!r}. Leave out / \\ and :."
        )


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
