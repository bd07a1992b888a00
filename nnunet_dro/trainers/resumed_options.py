"""The options of a training in its checkpoint, so that a name that means something else now does not change it."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from nnunet_dro.trainers.options import DROOptions, HWSOptions, TrainerOptions

#: What the length of the training is made of: it may be changed.
_LENGTH = ("epochs", "iterations")
#: The classes of options whose defaults are not those of every version, with the names of their trainers.
_TRAINERS: dict[str, tuple[str, type[TrainerOptions]]] = {
    "DROOptions": ("nnUNetTrainerDRO", DROOptions),
    "HWSOptions": ("nnUNetTrainerHWS", HWSOptions),
}


def recorded_options(options: TrainerOptions) -> dict[str, Any]:
    """What a checkpoint carries: the class of the options, and their values."""
    return {"class": type(options).__name__, "values": asdict(options)}


def check_resumed(options: TrainerOptions, recorded: Mapping[str, Any]) -> None:
    """Refuse to continue a training with other options than it was begun with.

    Args:
        options: The options that the trainer's name stands for.
        recorded: What the checkpoint carries, from `recorded_options`.

    Raises:
        ValueError: If they differ in more than the length; the message has the name to use, or what differs.
    """
    before, now = _decisive(recorded["values"]), _decisive(asdict(options))
    differing = [name for name in before if name not in _LENGTH and before[name] != now.get(name)]
    if not differing:
        return
    if (kind := str(recorded["class"])) not in _TRAINERS:
        what = ", ".join(f"{name} {before[name]!r}" for name in differing)
        raise ValueError(f"The training that is to be continued was begun with other options: {what}. Give it these.")
    base, options_class = _TRAINERS[kind]
    known = {field.name for field in fields(options_class)}
    name = base + options_class(**{field: value for field, value in before.items() if field in known}).suffix()
    raise ValueError(
        f"The training that is to be continued was begun with what the name {name} stands for now. Rename the folder "
        f"of the model from this trainer's name to {name}, and continue with -tr {name} --c."
    )


def _decisive(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without the share, where another option decides what is drawn."""
    others = values.get("cvar") or values.get("auto_beta") or values.get("chi2") or values.get("beta") is not None
    return {name: value for name, value in values.items() if name != "share" or not others}
