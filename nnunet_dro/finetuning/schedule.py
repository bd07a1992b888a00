"""The length and the learning rate of a finetuning, which are part of its trainer's name."""

from dataclasses import replace

from nnunet_dro.trainers.registry import parse_trainer_name

#: First learning rate and number of epochs, where neither the trainer's name nor the user gives them. How the learning
#: rate was chosen stands in docs/finetuning.md.
LEARNING_RATE, EPOCHS = 0.01, 100

_PREFIX = "nnUNetTrainer"


def finetuning_trainer(trainer: str, *, learning_rate: float | None = None, epochs: int | None = None) -> str:
    """The trainer's name with the schedule in it: as given, as in the name, or the default.

    Example:
        >>> finetuning_trainer("DRO_beta10_50epochs")
        'nnUNetTrainerDRO_beta10_50epochs'
    """
    full = trainer if trainer.startswith(_PREFIX) else f"{_PREFIX}{trainer}"
    try:
        base, options = parse_trainer_name(full)
    except AttributeError as error:
        cure = "nnUNetTrainerDRO_beta0 is plain training; `nnunet-dro trainers` lists the others."
        raise ValueError(f"`trainer` must be a trainer of nnunet-dro, got {trainer!r}. {cure}") from error
    in_name = {option.field: option for option in options.given_options()}
    values: dict[str, float | int] = {}
    for field, value, default in (("learning_rate", learning_rate, LEARNING_RATE), ("epochs", epochs, EPOCHS)):
        if field in in_name and value not in (None, of_name := getattr(options, field)):
            word = f"--{field.replace('_', '-')} {value:g}"
            raise ValueError(f"`trainer` must agree with {word}, got {trainer!r} with {of_name:g}. Give one of them.")
        if value is not None:
            values[field] = value
        elif field not in in_name:
            values[field] = default
    return base + replace(options, **values).suffix()  # type: ignore[arg-type]
