"""What a training begins from: random weights, another model, or a checkpoint of its own."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nnunet_dro.naming import count, name_some
from nnunet_dro.nnunet.folders import CHECKPOINTS, SPLITS_FILE, check_last_training
from nnunet_dro.nnunet.splits_file import SOURCE_CASES_FILE, held_out_cases
from nnunet_dro.sampling import positions_in_common
from nnunet_dro.trainers.checkpoint import (
    EARLIER_KEY,
    Source,
    check_resumed,
    read_checkpoint,
    recorded_options,
    trained_cases,
)
from nnunet_dro.trainers.data.dataloading import restart


class Beginning:
    """What a training begins from, and what its checkpoints say of that.

    Args:
        trainer: A trainer that derives from `HardnessWeighted`.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        #: What the checkpoint, or the model that was started from, says; empty for random weights.
        self.state: dict[str, Any] = {}
        #: What the column that the trainer reads has for each training case; empty without one.
        self.groups: dict[str, str] = {}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from the state of a checkpoint."""
        self.state = state

    def take(self, source: Source, weights: Mapping[str, torch.Tensor]) -> None:
        """Begin with the weights of another training, and say so in the checkpoints of this one.

        The network must have been built (`initialize`).
        """
        self._trainer.network.load_state_dict(weights)
        self.state = {"options": recorded_options(self._trainer.options), **source.state()}

    def check(self) -> None:
        """Refuse to continue a training with other options, or one that is not the last."""
        if self.state:
            trainer = self._trainer
            check_last_training(Path(trainer.output_folder))
            check_best_checkpoint(trainer)
            check_resumed(trainer.options, self.state["options"], trainer=type(trainer).__name__)

    def restore(self) -> None:
        """Give the table, the log and the loss what a checkpoint says of them."""
        if "table" not in self.state:
            return

        trainer = self._trainer
        if changed := trainer.hardness_log.load_state_dict(self.state):
            trainer.print_to_log_file(changed)
        trainer.loss.mean_weight = self.state.get("mean_weight", 1.0)
        if "pooled" in self.state and trainer.loss.pooled is not None:
            cases = trainer.hardness_log.table.cases
            here, there = positions_in_common(cases, self.state["table"]["cases"])
            trainer.loss.pooled.load_state_dict(self.state["pooled"], here, there)

    def keep_entries(self, entries: dict[str, str], *, column: str) -> None:
        """Keep what a column of the case table has for each training case.

        Log where that has changed since the checkpoint.
        """
        before = self.state.get("groups", {})
        changed = [case for case, entry in entries.items() if before.get(case, entry) != entry]
        if changed:
            self._trainer.print_to_log_file(
                f"WARNING: the column `{column}` of the case table has changed since the "
                f"checkpoint for {len(changed)} of {count(len(entries), 'training case')} "
                f"({name_some(changed)}). The training goes on with what it has now."
            )
        self.groups = entries

    def warn_of_validation(self) -> None:
        """Log which validation cases the training was given before the folds were changed."""
        trainer = self._trainer
        splits_file = Path(trainer.preprocessed_dataset_folder_base, SPLITS_FILE)
        held_out = held_out_cases(splits_file, str(trainer.fold))
        seen = sorted(trained_cases(self.state) & held_out)
        if seen:
            trainer.print_to_log_file(
                f"WARNING: {SPLITS_FILE} has changed since the checkpoint: before, the network was "
                f"trained on {len(seen)} of the {len(held_out)} cases that fold "
                f"{trainer.fold} validates on now ({name_some(seen)}). Its validation scores will "
                "be too good."
            )

    def begin(self) -> None:
        """Log the model that was started from, and give every case its first stale loss by it."""
        source = Source.in_state(self.state)
        trainer = self._trainer
        if source is None:
            # It would tell of an earlier training in this folder.
            Path(trainer.output_folder, SOURCE_CASES_FILE).unlink(missing_ok=True)
            return

        trainer.print_to_log_file(f"This training was started from {source}.")
        if "table" not in self.state:
            if trainer.hardness_log.table.rule.needs_losses and not trainer.draws_uniformly:
                fill_stale_losses(trainer)
            trainer.estimate_beta()

    def state_of_training(self) -> dict[str, Any]:
        """What a checkpoint of this training says; before the data loaders exist, what was loaded.

        Empty if that is nothing.
        """
        trainer = self._trainer
        if trainer.hardness_log is None:
            return self.state

        state = {
            **trainer.hardness_log.state_dict(),
            "options": recorded_options(trainer.options),
            "groups": self.groups,
        }
        if trainer.options.normalised:
            state["mean_weight"] = trainer.loss.mean_weight
        if trainer.loss.pooled is not None:
            state["pooled"] = trainer.loss.pooled.state_dict()

        # The cases of the table are those of the folds as they are now.
        earlier = trained_cases(self.state) - set(trainer.hardness_log.cases)
        if earlier:
            state[EARLIER_KEY] = sorted(earlier)

        source = Source.in_state(self.state)
        return state | source.state() if source else state


def check_best_checkpoint(trainer: Any) -> None:
    """Refuse to continue a finished training where a later one has written its best epoch only.

    The first checkpoint_latest.pth comes after a twentieth of the epochs, checkpoint_best.pth after
    the first one. The times of the files do not suffice, since copies have them in any order.

    Raises:
        ValueError: If the best checkpoint is of another training than the one that was loaded.
    """
    final, _, best = (Path(trainer.output_folder, name) for name in CHECKPOINTS)
    has_both = final.is_file() and best.is_file()
    if not has_both or best.stat().st_mtime_ns < final.stat().st_mtime_ns:
        return

    loaded = trainer.logger.get_checkpoint()
    written = read_checkpoint(best, cure="Move it away.")["logging"]
    first_epochs = [log["epoch_start_timestamps"][:1] for log in (loaded, written)]
    if first_epochs[0] != first_epochs[1]:
        raise ValueError(
            f"A later training in {str(final.parent)!r} is not finished: {best.name} is of it, and "
            f"{final.name}, which --c would continue, is not. Move {final.name} away to go on with "
            f"the later training, or {best.name} to keep the finished one."
        )


def fill_stale_losses(trainer: Any) -> None:
    """Give every case its stale loss in one pass without gradient over patches of the training.

    The draws are first visits, but no step follows them and no log counts them. The network is in
    the mode of nnU-Net's online validation, so that nothing in it changes. All ranks must call
    this, after `on_train_start` of nnU-Net.

    Args:
        trainer: A trainer that derives from `HardnessWeighted`.
    """
    table = trainer.hardness_log.table
    trainer.print_to_log_file(
        f"One pass without gradient gives the {len(table)} {trainer.hardness_log.items} their "
        "stale losses."
    )

    start = time.monotonic()
    trainer.network.eval()
    with torch.no_grad():
        while table.n_unseen:
            batch = next(trainer.dataloader_train)
            with trainer.loss.drawn(batch):
                trainer.validation_step(batch)
            cases, _ = trainer.loss.step()
            table.update(cases.indices, cases.losses)
    restart(trainer.dataloader_train)  # the batches that wait were drawn as first visits

    losses = table.losses
    finite = np.flatnonzero(np.isfinite(losses))
    if len(finite):
        hardest = finite[losses[finite].argmax()]
        trainer.print_to_log_file(
            f"The pass took {time.monotonic() - start:.1f} s. Mean stale loss "
            f"{losses[finite].mean():.4f}, largest {losses[hardest]:.4f} ({table.cases[hardest]})."
        )
