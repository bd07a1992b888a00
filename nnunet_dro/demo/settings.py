"""The settings of a run of the demo, which its folder records."""

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from nnunet_dro.files.output_folder import replacing

#: nnU-Net as it is, with this package's logs.
PLAIN_TRAINER = "nnUNetTrainerDRO_beta0"

_SETTINGS_FILE = "demo.json"


@dataclass(frozen=True)
class Settings:
    """The settings of a run of the demo; a folder belongs to one of them."""

    data: str | None  # raw dataset to use; None for the demo's own
    by: str  # column of the case table to report by
    trainer: str  # name of the robust trainer, without the length
    epochs: int  # epochs of both trainings
    iterations: int  # iterations per epoch of both trainings
    seed: int  # random seed of the dataset and its division (nnU-Net's training has none)

    @property
    def trainers(self) -> dict[str, str]:
        """Name of the trainer of each method."""
        from nnunet_dro.trainers.registry import parse_trainer_name  # imports nnU-Net

        names = {}
        for method, name in (("ERM", PLAIN_TRAINER), ("DRO", self.trainer)):
            base, options = parse_trainer_name(name)
            names[method] = base + replace(options, epochs=self.epochs, iterations=self.iterations).suffix()
        return names


def claim(out: Path, settings: Settings) -> None:
    """Reserve ``out`` for these settings, or check that it is reserved for them."""
    recorded = out / _SETTINGS_FILE
    if out.exists() and not out.is_dir():
        raise ValueError(f"`out` must be a folder, got the file {str(out)!r}. Choose another with --out.")
    if not recorded.is_file():
        if out.is_dir() and any(path.name != recorded.name for path in out.iterdir()):
            cure = "Choose another with --out."
            raise ValueError(f"`out` must be empty or hold an earlier demo, got {str(out)!r} with other files. {cure}")
        out.mkdir(parents=True, exist_ok=True)
        with replacing(recorded) as new:
            new.write_text(json.dumps(asdict(settings), indent=2) + "\n", encoding="utf-8")
        return
    try:
        before: Any = json.loads(recorded.read_text(encoding="utf-8"))
        now = json.loads(json.dumps(asdict(settings)))
        differing = next((f.name for f in fields(Settings) if before[f.name] != now[f.name]), None)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(
            f"`out` must hold a readable {_SETTINGS_FILE}, got {str(recorded)!r}. Remove {out}."
        ) from error
    if differing:
        was = f"{str(out)!r}, which holds a run with {differing} {before[differing]!r} instead of {now[differing]!r}"
        raise ValueError(
            f"`out` must be a new folder or one with the same settings, got {was}. Choose another with --out."
        )
