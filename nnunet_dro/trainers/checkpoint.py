"""Puts the hardness table into nnU-Net's checkpoints."""

from collections.abc import Callable
from typing import Any

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
