"""The command `nnunet-dro finetune`, which imports what it needs when it is called."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from nnunet_dro.commands.completion import complete_trainer
from nnunet_dro.commands.shared import (
    Configuration,
    Dataset,
    Plans,
    TrainingDevice,
    argument,
    option,
    takes,
)
from nnunet_dro.naming import count, name_some
from nnunet_dro.nnunet.command import Device, best_device, find_command
from nnunet_dro.progress_bar import progress_bar

if TYPE_CHECKING:
    from nnunet_dro.nnunet.training import Target

LOG = "finetune.log"  # The log of the command, in the folder of the fold.

#: What the measurements in docs/finetuning.md say against it.
HARM = (
    "Note: whether rare cases gain from continuing a training is open; in our experiments the "
    "intervals of the gains of the rare nuclei and of the rare cerebellum include 0. Train anew if "
    "you can, and compare before you rely on it."
)


@dataclass(frozen=True, kw_only=True)
class _Options:
    dataset: Dataset
    configuration: Configuration
    fold: Annotated[str, argument("Fold to train on: a number, or all.")]
    source: Annotated[
        str,
        option(
            "Trainer that has finished this fold, or the path of a fold's folder or a checkpoint.",
            "--from",
        ),
    ]
    trainer: Annotated[
        str,
        option("Trainer to continue with, such as IW_centre.", autocompletion=complete_trainer),
    ]
    learning_rate: Annotated[
        float | None, option("First learning rate; default: the trainer's, or 0.01.")
    ] = None
    epochs: Annotated[
        int | None, option("Number of epochs; default: as in the trainer's name, or 100.")
    ] = None
    plans: Plans = "nnUNetPlans"
    device: TrainingDevice = None
    num_gpus: Annotated[int, option("Number of GPUs to train on.", min=1)] = 1


@takes(_Options)
def finetune(options: _Options) -> None:
    """Continue a finished training, segmentation heads included, with a trainer of this package.

    Whether rare cases gain from continuing a training is open: in our experiments the intervals of
    the gains of the rare nuclei and of the rare cerebellum include 0. Train anew if you can, and
    compare before you rely on it.
    """
    from nnunet_dro.files.output_folder import check_writable
    from nnunet_dro.model_folders.finetuning import finetuning_trainer
    from nnunet_dro.nnunet.training import find_target

    target = find_target(options.dataset, options.configuration, options.fold, plans=options.plans)
    trainer = finetuning_trainer(
        options.trainer,
        learning_rate=options.learning_rate,
        epochs=options.epochs,
    )
    n_validation = len(target.validation_cases())

    find_command("nnUNetv2_train")
    device = best_device(options.device and options.device.value)
    if options.num_gpus > 1 and device != Device.CUDA:
        raise ValueError(
            f"`num_gpus` must be 1 on the device {device}, got {options.num_gpus}. "
            "Use --device cuda."
        )
    check_writable(target.fold_folder(trainer))

    _start(target, trainer, options.source, device)
    _train(target, trainer, device, options.num_gpus, n_validation)


def _start(target: "Target", trainer: str, source: str, device: str) -> None:
    """Write the first checkpoint, if there is none yet, and say what will be trained."""
    from nnunet_dro.files.output_folder import write_files
    from nnunet_dro.model_folders.finetuning import is_started, write_first_checkpoint
    from nnunet_dro.model_folders.source_model import find_source, read_source
    from nnunet_dro.nnunet.splits_file import SOURCE_CASES_FILE

    model = read_source(find_source(source, target))
    is_new = not is_started(target, trainer, model)
    if is_new:
        write_first_checkpoint(target, trainer, model, device=device)

    verb = "Starting" if is_new else "Continuing"
    message = f"{verb} {trainer} from {model.source}"
    typer.echo(message)
    with (target.fold_folder(trainer) / LOG).open("a", encoding="utf-8") as log:
        log.write(f"{message}\n")

    if is_new:
        typer.echo(f"nnunet-dro: {HARM}", err=True)
    seen = model.seen_validation_cases(target)
    if seen:
        # So that later commands know it, too.
        write_files(target.fold_folder(trainer), {SOURCE_CASES_FILE: "\n".join(seen)})
    if seen != []:
        which = "cases" if seen is None else f"{count(len(seen), 'case')} ({name_some(seen)})"
        typer.echo(
            f"nnunet-dro: WARNING: the model, from fold {model.fold} of the same dataset, may have "
            f"been trained on {which} that fold {target.fold} validates on. Its validation scores "
            "will be too good.",
            err=True,
        )


def _train(target: "Target", trainer: str, device: str, num_gpus: int, n_validation: int) -> None:
    """Train with a bar of progress, and say how to predict with the result."""
    from nnunet_dro.nnunet.training import Epochs, TrainingFailedError, train
    from nnunet_dro.trainers.registry import parse_trainer_name

    _, trainer_options = parse_trainer_name(trainer)
    folder = target.fold_folder(trainer)
    options = []
    if num_gpus > 1:
        options += ["-num_gpus", str(num_gpus)]

    with progress_bar(trainer) as progress:

        def watch(epochs: Epochs) -> None:
            n_done, n_all, what = epochs.progress(trainer_options.epochs, n_validation)
            progress(n_done, n_all, f"{trainer}, {what}")

        try:
            train(
                target,
                trainer,
                device=device,
                log=folder / LOG,
                watch=watch,
                options=options,
            )
        except TrainingFailedError as error:
            typer.echo(f"nnunet-dro: {error}. Repeat the command to continue.", err=True)
            raise typer.Exit(1) from error

    typer.echo(f"Predict with: {target.prediction(trainer)}")
    typer.echo(folder)
