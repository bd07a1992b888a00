"""The start of a training from another one's weights: where they come from, and the first stale losses."""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnunet_dro.sampling import UNIFORM
from nnunet_dro.trainers.checkpoint import STATE_KEY
from nnunet_dro.trainers.data.dataloading import restart

#: Key of the source in the state that a checkpoint carries.
SOURCE_KEY = "started_from"


@dataclass(frozen=True)
class Source:
    """The trained model that a training was started from.

    Attributes:
        trainer: Name of its trainer.
        checkpoint: Path of its checkpoint when the training was started.
        epochs: Number of epochs it had been trained for.
        digest: Digest of its weights, see `digest_of`.
    """

    trainer: str
    checkpoint: str
    epochs: int
    digest: str

    def __str__(self) -> str:
        return f"{self.trainer} after {self.epochs} epochs ({self.checkpoint})"

    def state(self) -> dict[str, Any]:
        """Entry of the state of a checkpoint that says where the training was started from."""
        return {SOURCE_KEY: asdict(self)}

    @classmethod
    def in_state(cls, state: Mapping[str, Any] | None) -> "Source | None":
        """What the state of a checkpoint says; None for a training that began with random weights."""
        return None if state is None or SOURCE_KEY not in state else cls(**state[SOURCE_KEY])

    @classmethod
    def in_checkpoint(cls, checkpoint: Mapping[str, Any]) -> "Source | None":
        """What a checkpoint says; None for a training that began with random weights."""
        return cls.in_state(checkpoint.get("logging", {}).get(STATE_KEY))


def digest_of(weights: Mapping[str, Tensor]) -> str:
    """Digest of names and values of weights, the same wherever they were saved."""
    digest = hashlib.sha256()
    for name, values in sorted(weights.items()):
        digest.update(name.encode())
        digest.update(values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def fill_stale_losses(trainer: Any) -> None:
    """Give every case its stale loss in one pass without gradient over augmented patches of the training.

    The draws are first visits, as at the start of any training by hardness, but no step follows them and no log counts
    them. The network is in the mode of nnU-Net's online validation, so that nothing in it changes. Rules that draw
    uniformly or by group need no losses; for them there is no pass. All ranks must call this.

    Args:
        trainer: A `HardnessWeighted` trainer whose data loaders have been made.
    """
    log = trainer.hardness_log
    if log is None or not log.table.rule.needs_losses:
        return
    table, mean_weight = log.table, trainer.loss.mean_weight
    if table.rule == UNIFORM and not trainer.options.auto_beta:
        return
    trainer.print_to_log_file(f"One pass without gradient gives the {len(table)} {log.items} their stale losses.")
    start = time.monotonic()
    trainer.network.eval()
    with torch.no_grad():
        while table.n_unseen:
            batch = next(trainer.dataloader_train)
            with trainer.loss.drawn(batch):
                trainer.validation_step(batch)
            cases, _ = trainer.loss.step()
            table.update(cases.indices, cases.losses)
    trainer.loss.mean_weight = mean_weight
    if hasattr(trainer.dataloader_train, "restart"):
        restart(trainer.dataloader_train)  # the batches that wait were drawn as first visits
    losses, known = table.losses, np.flatnonzero(np.isfinite(table.losses))
    if len(known):
        hardest = known[losses[known].argmax()]
        trainer.print_to_log_file(
            f"The pass took {time.monotonic() - start:.1f} s. Mean stale loss {losses[known].mean():.4f}, largest "
            f"{losses[hardest]:.4f} ({table.cases[hardest]})."
        )
