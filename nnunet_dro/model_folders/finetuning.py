"""Finetuning: a training of this package's trainers that starts from a finished one.

A first checkpoint is written with all weights of the source, segmentation heads included, from
which nnU-Net's own command continues.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path

import torch
from nnunetv2.run.run_training import get_trainer_from_args

from nnunet_dro.model_folders.source_model import SourceModel, check_same_network, check_same_task
from nnunet_dro.nnunet.command import variables
from nnunet_dro.nnunet.folders import CHECKPOINTS, first_checkpoint
from nnunet_dro.nnunet.training import Target
from nnunet_dro.trainers.checkpoint import Source, read_checkpoint, state_in
from nnunet_dro.trainers.hardness_weighted import HardnessWeighted
from nnunet_dro.trainers.registry import check_trained, parse_trainer_name

#: First learning rate and number of epochs, where neither the trainer's name nor the user gives
#: them.
LEARNING_RATE = 0.01
EPOCHS = 100


def finetuning_trainer(
    trainer: str, *, learning_rate: float | None = None, epochs: int | None = None
) -> str:
    """The trainer's name with the schedule in it: as given, as in the name, or the default."""
    try:
        base, options = parse_trainer_name(f"nnUNetTrainer{trainer.removeprefix('nnUNetTrainer')}")
    except AttributeError as error:
        raise ValueError(
            f"`trainer` must be a trainer of nnunet-dro, got {trainer!r}. nnUNetTrainerDRO_beta0 "
            "is plain training; `nnunet-dro trainers` lists the others."
        ) from error

    fields_in_name = {option.field for option in options.given_options()}
    schedule: dict[str, float | int] = {}
    for field, value, default in (
        ("learning_rate", learning_rate, LEARNING_RATE),
        ("epochs", epochs, EPOCHS),
    ):
        if field in fields_in_name:
            _check_agrees(trainer, field, value, getattr(options, field))
        if value is not None:
            schedule[field] = value
        elif field not in fields_in_name:
            schedule[field] = default

    return base + replace(options, **schedule).suffix()  # type: ignore[arg-type]


def _check_agrees(trainer: str, field: str, value: float | None, value_in_name: float) -> None:
    """Check that an option of the command, where it is given, says the same as the name."""
    if value is None or value == value_in_name:
        return
    raise ValueError(
        f"`trainer` must agree with --{field.replace('_', '-')} {value:g}, got {trainer!r} with "
        f"{value_in_name:g}. Give one of them."
    )


def is_started(target: Target, trainer: str, model: SourceModel) -> bool:
    """Whether this finetuning has its first checkpoint, or a later one.

    A folder with another training is refused.
    """
    folder = target.fold_folder(trainer)
    if model.path.absolute().parent == folder:
        raise ValueError(
            f"`from` must be another training than the one to start, got {trainer!r} for both."
        )

    path = first_checkpoint(folder)
    if path is None:
        return False
    source = Source.in_state(state_in(read_checkpoint(path, cure="Remove it.")))
    if source is not None and source.digest == model.source.digest:
        check_trained(folder, trainer, held_out=target.held_out_cases())
        return True

    origin = "began with random weights" if source is None else f"was started from {source}"
    raise ValueError(
        f"`trainer` must be new, or started from the same model, got {trainer!r}, whose training "
        f"in {str(folder)!r} {origin}. Give other --epochs or --learning-rate, or remove that "
        "folder."
    )


def write_first_checkpoint(
    target: Target, trainer: str, model: SourceModel, *, device: str
) -> Path:
    """Write a checkpoint with the source's weights and no epoch behind it.

    The checkpoint gets the name that nnU-Net's ``--c`` looks for last.
    """
    check_same_task(model, target)
    fold = target.fold if target.fold == "all" else int(target.fold)
    with (
        _without_traces(target.fold_folder(trainer)),
        open(os.devnull, "w") as nowhere,
        redirect_stdout(nowhere),
    ):
        started: HardnessWeighted = get_trainer_from_args(
            target.dataset,
            target.configuration,
            fold,
            trainer,
            target.plans,
            device=torch.device("cpu"),
        )
        started.initialize()
        check_same_network(model, started.network.state_dict())

        started.beginning.take(model.source, model.weights)
        started.inference_allowed_mirroring_axes = model.mirroring_axes
        started.my_init_kwargs["device"] = torch.device(device)
        started.current_epoch = -1  # nnU-Net stores the number of the next one

        path = Path(started.output_folder) / CHECKPOINTS[-1]
        started.save_checkpoint(str(path))
    return path


@contextmanager
def _without_traces(folder: Path) -> Iterator[None]:
    """Leave nothing of a trainer but the checkpoint that it writes.

    No log, no run of Weights & Biases, and no empty folder where the checkpoint was refused.
    """
    before = set(folder.glob("*"))
    try:
        with variables(nnUNet_wandb_enabled="0"):
            yield
    finally:
        for log in set(folder.glob("training_log_*.txt")) - before:
            log.unlink()
        for made in (folder, folder.parent):
            if made.is_dir() and not any(made.iterdir()):
                made.rmdir()
