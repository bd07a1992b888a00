"""What a checkpoint carries beside the network: the hardness table, the options and the source."""

import hashlib
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nnunet_dro.files.output_folder import replacing
from nnunet_dro.naming import count
from nnunet_dro.trainers.options import DROOptions, HWSOptions, TrainerOptions
from nnunet_dro.trainers.options.by_hardness import EARNED

#: Key of the state of the hardness table in the logging part of a checkpoint.
STATE_KEY = "nnunet_dro"
#: Key of the source in the state that a checkpoint carries.
SOURCE_KEY = "started_from"
#: Key of the cases that were trained on before the folds were changed.
EARLIER_KEY = "trained_on_before"
#: Fields that make up the length of the training, which may be changed when it is continued.
_LENGTH = ("epochs", "iterations")
#: What the name of a sub-volume has after that of its case: CASE@0,0,1.
_CELL = re.compile(r"@\d+,\d+,\d+$")
#: Classes of options whose defaults have changed between versions, with the names of their
#: trainers.
_TRAINERS: dict[str, tuple[str, type[TrainerOptions]]] = {
    "DROOptions": ("nnUNetTrainerDRO", DROOptions),
    "HWSOptions": ("nnUNetTrainerHWS", HWSOptions),
}


class CheckpointedLogger:
    """nnU-Net's logger, whose part of a checkpoint also carries the state of the hardness table.

    nnU-Net builds its checkpoints inline. In every version, the logger is the one object that it
    asks for a part of the checkpoint when saving, and gives this part back to when loading.
    """

    def __init__(
        self,
        logger: Any,
        *,
        save: Callable[[], dict[str, Any]],
        load: Callable[[dict[str, Any]], None],
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
        checkpoint = dict(self._logger.get_checkpoint())
        state = self._save()
        if state:
            checkpoint[STATE_KEY] = state
        return checkpoint

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Give the logger its part, and hand the state over."""
        part = {key: value for key, value in checkpoint.items() if key != STATE_KEY}
        self._logger.load_checkpoint(part)
        if STATE_KEY in checkpoint:
            self._load(checkpoint[STATE_KEY])


@contextmanager
def whole_checkpoint(filename: str) -> Iterator[Path]:
    """Give the name of a file that becomes a checkpoint once it is complete.

    If it cannot be written, the checkpoint before it stays as it is, and the error says so.
    """
    try:
        with replacing(filename) as partial:
            yield partial
    except (OSError, RuntimeError) as error:
        if "CUDA" in str(error):
            raise  # nothing of the disk
        raise OSError(
            f"Could not write the checkpoint {filename}: {str(error).splitlines()[0]}. The one "
            f"before is unharmed: free some space in {os.path.dirname(filename)}, and continue "
            "with --c."
        ) from error


def read_checkpoint(path: Path, *, cure: str) -> dict[str, Any]:
    """Read a checkpoint of nnU-Net to the CPU.

    Args:
        path: The file.
        cure: What to do if the file holds something else, for the error.

    Returns:
        The content, which has weights, the name of the trainer and that of the configuration.

    Raises:
        ValueError: If the file is damaged, or no checkpoint of nnU-Net.
    """
    try:
        # nnU-Net's checkpoints hold numpy's numbers.
        content = torch.load(path, map_location="cpu", weights_only=False)
        names = (content["init_args"]["configuration"], content["trainer_name"])
        has_names = all(isinstance(name, str) for name in names)
        if has_names and isinstance(content["network_weights"], dict):
            return dict(content)
    except Exception as error:  # whatever an unpickled file raises
        raise ValueError(
            f"`checkpoint` must be a checkpoint of nnU-Net, got {str(path)!r}: "
            f"{type(error).__name__} {error}. Copy it again from where the model was trained."
        ) from error
    raise ValueError(f"`checkpoint` must be a checkpoint of nnU-Net, got {str(path)!r}. {cure}")


def state_in(checkpoint: Mapping[str, Any]) -> Mapping[str, Any]:
    """What this package adds to a checkpoint; nothing in those of other trainers."""
    state: Mapping[str, Any] = checkpoint.get("logging", {}).get(STATE_KEY, {})
    return state


def trained_cases(state: Mapping[str, Any]) -> set[str]:
    """The cases that the state of a checkpoint says were trained on, with any folds so far."""
    names = [*state.get("table", {}).get("cases", ()), *state.get(EARLIER_KEY, ())]
    return {_CELL.sub("", str(name)) for name in names}


@dataclass(frozen=True)
class Source:
    """The trained model that a training was started from."""

    trainer: str  # name of its trainer
    checkpoint: str  # path of its checkpoint when the training was started
    epochs: int | None  # number of epochs it had been trained for; a shared model does not say
    digest: str  # digest of its weights, see `digest_of`

    def __str__(self) -> str:
        after = "" if self.epochs is None else f" after {count(self.epochs, 'epoch')}"
        return f"{self.trainer}{after} ({self.checkpoint})"

    def state(self) -> dict[str, Any]:
        """Entry of the state of a checkpoint that says where the training was started from."""
        return {SOURCE_KEY: asdict(self)}

    @classmethod
    def in_state(cls, state: Mapping[str, Any]) -> "Source | None":
        """What the state of a checkpoint says; None for a training from random weights."""
        if SOURCE_KEY not in state:
            return None
        return cls(**state[SOURCE_KEY])


def digest_of(weights: Mapping[str, Tensor]) -> str:
    """Digest of names and values of weights, the same wherever they were saved."""
    digest = hashlib.sha256()
    for name, values in sorted(weights.items()):
        digest.update(name.encode())
        on_cpu = values.detach().cpu().contiguous().reshape(-1)
        digest.update(on_cpu.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def recorded_options(options: TrainerOptions) -> dict[str, Any]:
    """What a checkpoint carries: the class of the options, and their values."""
    return {"class": type(options).__name__, "values": asdict(options)}


def check_resumed(options: TrainerOptions, recorded: Mapping[str, Any], *, trainer: str) -> None:
    """Refuse to continue a training with other options than its checkpoint recorded.

    Raises:
        ValueError: If a decisive option differs. The message says which trainer's name stands for
            the recorded options now, if one does, or otherwise what they are.
    """
    differing = _differing(options, recorded)
    if not differing:
        return

    name = name_of_today(options, recorded, trainer=trainer)
    if name is None:
        what = ", ".join(f"{field} {value!r}" for field, value in differing.items())
        raise ValueError(
            f"The training that is to be continued was begun with other options: {what}. Give it "
            "these."
        )
    raise ValueError(
        f"The training that is to be continued was begun with what the name {name} stands for "
        f"now. Rename the folder of the model from this trainer's name to {name}, and continue "
        f"with -tr {name} --c."
    )


def name_of_today(
    options: TrainerOptions, recorded: Mapping[str, Any], *, trainer: str
) -> str | None:
    """The trainer's name that stands now for the options that a checkpoint recorded.

    None if no name does.

    Args:
        options: The options that ``trainer`` stands for now.
        recorded: The options in the checkpoint.
        trainer: The name of the trainer in the checkpoint.
    """
    if not _differing(options, recorded):
        return trainer

    kind = str(recorded["class"])
    bases = tuple(base for base, _ in _TRAINERS.values())
    if kind not in _TRAINERS or not trainer.startswith(bases):
        return None

    base, options_class = _TRAINERS[kind]
    fields_now = {field.name for field in fields(options_class)}
    before = _decisive(recorded["values"])
    values = {field: value for field, value in before.items() if field in fields_now}
    return base + options_class(**values).suffix()


def _differing(options: TrainerOptions, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The decisive options that a checkpoint recorded with another value, the length apart."""
    before = _decisive(recorded["values"])
    now = _decisive(asdict(options))
    return {
        name: value
        for name, value in before.items()
        if name not in _LENGTH and value != now.get(name)
    }


def default_rule(options: TrainerOptions) -> str | None:
    """What a name without a rule stands for, as in a name; None where the options name the rule.

    Versions differ in it.
    """
    values = _decisive(asdict(options))
    if "hardest" not in values:
        return None
    return f"hardest{values['hardest']:g}_rare{values.get('rare', 1):g}"


def _decisive(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of options without those in whose place another one decides what is drawn."""
    decides_otherwise = (
        values.get("cvar")
        or values.get("auto_beta")
        or values.get("chi2")
        or values.get("beta") is not None
    )
    has_weights = values.get("importance_sampling")
    idle = []
    if decides_otherwise:
        idle = ["share", "earned", "hardest", "rare"]
    elif values.get("share") is not None:
        idle = ["earned", "hardest", "rare"]
    elif values.get("earned") is not None or has_weights:
        idle = ["hardest", "rare"]
        # Importance weights have this share unless another is named.
        if has_weights and values.get("earned") == EARNED:
            idle.append("earned")
    elif math.prod(values.get("subvolumes", ())) > 1:
        idle = ["rare"]  # which looks at whole images
    return {name: value for name, value in values.items() if name not in idle}
