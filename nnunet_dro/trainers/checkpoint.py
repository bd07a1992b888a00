"""The hardness table inside nnU-Net's checkpoints."""

from collections.abc import Callable
from typing import Any

#: Key of the state of the hardness table in the logging part of a checkpoint.
STATE_KEY = "nnunet_dro"


class CheckpointedLogger:
    """nnU-Net's logger, whose part of a checkpoint also carries the state of the hardness table.

    nnU-Net builds its checkpoints inline; what the logger returns is the one part that is asked for when a checkpoint
    is saved and given back when it is loaded, in every version. Everything else is the logger's own.

    Args:
        logger: The logger of a nnU-Net trainer.
        save: Returns the state to carry, or None for nothing.
        load: Takes a state that was carried.
    """

    def __init__(
        self, logger: Any, *, save: Callable[[], dict[str, Any] | None], load: Callable[[dict[str, Any]], None]
    ) -> None:
        self._logger = logger
        self._save = save
        self._load = load

    def __getattr__(self, name: str) -> Any:
        if name == "_logger":  # not there yet: this object is being copied or unpickled
            raise AttributeError(name)
        return getattr(self._logger, name)

    def get_checkpoint(self) -> dict[str, Any]:
        """The logger's checkpoint with the state beside it."""
        state = self._save()
        return {**self._logger.get_checkpoint(), **({} if state is None else {STATE_KEY: state})}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Give each its part."""
        self._logger.load_checkpoint({key: value for key, value in checkpoint.items() if key != STATE_KEY})
        if STATE_KEY in checkpoint:
            self._load(checkpoint[STATE_KEY])
