"""The stale losses that a training has before its first step, if it begins with learnt weights."""

import time
from typing import Any

import numpy as np
import torch

from nnunet_dro.trainers.data.dataloading import restart


def fill_stale_losses(trainer: Any) -> None:
    """Give every case its stale loss in one pass without gradient over patches of the training.

    The draws are first visits, but no step follows them and no log counts them. The network is in
    the mode of nnU-Net's online validation, so that nothing in it changes. All ranks must call
    this, after `on_train_start` of nnU-Net.

    Args:
        trainer: A trainer that derives from `HardnessWeighted`.
    """
    log = trainer.hardness_log
    table = log.table
    trainer.print_to_log_file(
        f"One pass without gradient gives the {len(table)} {log.items} their stale losses."
    )

    start = time.monotonic()
    mean_weight = trainer.loss.mean_weight
    trainer.network.eval()
    with torch.no_grad():
        while table.n_unseen:
            batch = next(trainer.dataloader_train)
            with trainer.loss.drawn(batch):
                trainer.validation_step(batch)
            cases, _ = trainer.loss.step()
            table.update(cases.indices, cases.losses)
    trainer.loss.mean_weight = mean_weight
    restart(trainer.dataloader_train)  # the batches that wait were drawn as first visits
    seconds = time.monotonic() - start

    losses = table.losses
    finite = np.flatnonzero(np.isfinite(losses))
    if len(finite):
        hardest = finite[losses[finite].argmax()]
        trainer.print_to_log_file(
            f"The pass took {seconds:.1f} s. Mean stale loss {losses[finite].mean():.4f}, largest "
            f"{losses[hardest]:.4f} ({table.cases[hardest]})."
        )
