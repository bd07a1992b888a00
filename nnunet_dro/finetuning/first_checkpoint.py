"""The first checkpoint of a finetuning, from which nnU-Net's own command continues."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import torch
from nnunetv2.run.run_training import get_trainer_from_args

from nnunet_dro.finetuning.source_model import SourceModel, check_same_network, check_same_task
from nnunet_dro.nnunet.training import Target
from nnunet_dro.trainers.checkpoint import Source, read_checkpoint
from nnunet_dro.trainers.hardness_weighted import HardnessWeighted

#: In the order in which nnU-Net's ``--c`` looks for them.
_CHECKPOINTS = ("checkpoint_final.pth", "checkpoint_latest.pth", "checkpoint_best.pth")

_WANDB = "nnUNet_wandb_enabled"


def is_started(target: Target, trainer: str, model: SourceModel) -> bool:
    """Whether this finetuning has its first checkpoint, or a later one; a folder with another training is refused."""
    folder = target.fold_folder(trainer)
    if model.path.absolute().parent == folder:
        raise ValueError(f"`from` must be another training than the one to start, got {trainer!r} for both.")
    path = next((folder / name for name in _CHECKPOINTS if (folder / name).is_file()), None)
    if path is None:
        return False
    source = Source.in_checkpoint(read_checkpoint(path, cure="Remove it."))
    if source is not None and source.digest == model.source.digest:
        return True
    was = "began with random weights" if source is None else f"was started from {source}"
    raise ValueError(
        f"`trainer` must be new, or started from the same model, got {trainer!r}, whose training in {str(folder)!r} "
        f"{was}. Give other --epochs or --learning-rate, or remove that folder."
    )


def write_first_checkpoint(target: Target, trainer: str, model: SourceModel, *, device: str) -> Path:
    """Write the checkpoint of a training that has the source's weights and no epoch behind it.

    It is ``checkpoint_best.pth``, of which nnU-Net's ``--c`` takes the last notice, so that every later one comes
    first. It is made on the CPU; where the source does not fit, nothing is left in the folder.
    """
    check_same_task(model, target)
    fold = target.fold if target.fold == "all" else int(target.fold)
    with _without_traces(target.fold_folder(trainer)), open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        started: HardnessWeighted = get_trainer_from_args(
            target.dataset, target.configuration, fold, trainer, target.plans, device=torch.device("cpu")
        )
        started.initialize()
        check_same_network(model, started.network.state_dict())
        started.start_from(model.source, model.weights)
        started.inference_allowed_mirroring_axes = model.mirroring_axes
        started.my_init_kwargs["device"] = torch.device(device)
        started.current_epoch = -1  # nnU-Net stores the number of the next one
        path = Path(started.output_folder) / _CHECKPOINTS[-1]
        started.save_checkpoint(str(path))
    return path


@contextmanager
def _without_traces(folder: Path) -> Iterator[None]:
    """Leave no log of a trainer that only writes a checkpoint, no run of Weights & Biases, and no empty folder."""
    before, wandb = set(folder.glob("*")), os.environ.get(_WANDB)
    os.environ[_WANDB] = "0"
    try:
        yield
    finally:
        os.environ.pop(_WANDB)
        if wandb is not None:
            os.environ[_WANDB] = wandb
        for log in set(folder.glob("training_log_*.txt")) - before:
            log.unlink()
        for made in (folder, folder.parent):
            if made.is_dir() and not any(made.iterdir()):
                made.rmdir()
