"""Reads nnU-Net's checkpoints, and puts the hardness table into them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

#: Key of the state of the hardness table in the logging part of a checkpoint.
STATE_KEY = "nnunet_dro"


class CheckpointedLogger:
    """nnU-Net's logger, whose part of a checkpoint also carries the state of the hardness table.

    nnU-Net builds its checkpoints inline. In every version, the logger is the one object that it asks for a part of the
    checkpoint when saving, and gives this part back to when loading. In all other respects this is the wrapped logger.

    Args:
        logger: The logger of a nnU-Net trainer.
        save: Returns the state to put into the checkpoint, or None for none.
        load: Takes the state from a checkpoint.
    """

    def __init__(
        self, logger: Any, *, save: Callable[[], dict[str, Any] | None], load: Callable[[dict[str, Any]], None]
    ) -> None:
        self._logger = logger
        self._save = save
        self._load = load

    def __getattr__(self, name: str) -> Any:
        if name == "_logger":  # this object is being copied or unpickled, and has no logger yet
            raise AttributeError(name)
        return getattr(self._logger, name)

    def get_checkpoint(self) -> dict[str, Any]:
        """The logger's part of the checkpoint, with the state added."""
        state = self._save()
        return {**self._logger.get_checkpoint(), **({} if state is None else {STATE_KEY: state})}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Give the logger its part, and hand the state over."""
        self._logger.load_checkpoint({key: value for key, value in checkpoint.items() if key != STATE_KEY})
        if STATE_KEY in checkpoint:
            self._load(checkpoint[STATE_KEY])


def read_checkpoint(path: Path, *, cure: str) -> dict[str, Any]:
    """Read a checkpoint of nnU-Net to the CPU.

    Args:
        path: The file.
        cure: What the error suggests if it is something else.

    Returns:
        Its contents, with at least the weights, the trainer's name, and the configuration in ``init_args``.

    Raises:
        ValueError: If the file is no such checkpoint, or damaged.
    """
    try:
        # nnU-Net's checkpoints hold numpy's numbers.
        content = torch.load(path, map_location="cpu", weights_only=False)
        names = (content["init_args"]["configuration"], content["trainer_name"])
        if all(isinstance(name, str) for name in names) and isinstance(content["network_weights"], dict):
            return dict(content)
    except Exception as error:  # whatever an unpickled file raises
        raise ValueError(
            f"`checkpoint` must be a checkpoint of nnU-Net, got {str(path)!r}: {type(error).__name__} {error}. Copy it "
            "again from where the model was trained."
        ) from error
    raise ValueError(f"`checkpoint` must be a checkpoint of nnU-Net, got {str(path)!r}. {cure}")
