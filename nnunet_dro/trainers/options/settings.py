"""Options of every trainer, which are checked when they are made and read from its name."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.bad_input import check_number
from nnunet_dro.naming import count
from nnunet_dro.sampling import UNIFORM, Rule
from nnunet_dro.trainers.options.forms import OPTIONS
from nnunet_dro.trainers.options.option import Option

if TYPE_CHECKING:
    from nnunet_dro.losses import ImportanceWeights

#: Length and first learning rate of nnU-Net's own trainings. These are defaults, which names leave
#: out.
NNUNET_EPOCHS = 1000
NNUNET_ITERATIONS = 250
NNUNET_VALIDATION_ITERATIONS = 50
NNUNET_LEARNING_RATE = 0.01

#: What the numbers of some fields must be, see `check_number`. A field that may be None passes with
#: it.
_INTERVALS: dict[tuple[str, ...], str] = {
    ("beta", "adjustment", "penalty", "logit_adjustment", "vector_scaling"): "[0, inf)",
    ("nu", "step_size", "largest_change", "polynomial_tail", "learning_rate"): "(0, inf)",
    ("earned", "share", "cvar"): "(0, 1)",
    ("hardest", "doro", "momentum", "memory"): "[0, 1)",
    ("power", "exploration"): "[0, 1]",
    ("smoothing",): "[0, 0.5]",
    ("rare", "epochs", "iterations"): "[1, inf)",
    ("steps",): "[1, 15]",
}


#: Options that are given, and what they have no effect with.
Idle = tuple[list[Option], str]


@dataclass(frozen=True, kw_only=True)
class History:
    """How the losses of the cases are collected; `OPTIONS` says what each field does."""

    momentum: float = 0.0
    warmup: int = 0
    hardness: Literal["loss", "ce", "present", "pooled"] = "loss"
    memory: float = 0.9


@dataclass(frozen=True, kw_only=True)
class TrainerOptions:
    """Options of every trainer of this package.

    `OPTIONS` says what each field does, `_INTERVALS` what it may be.

    Example:
        >>> options = TrainerOptions(logit_adjustment=1.0, epochs=20)
        >>> options.suffix(), options.validation_iterations
        ('_la1_20epochs', 50)
    """

    replace: bool = False
    logit_adjustment: float = 0.0
    vector_scaling: float = 0.0
    polynomial_tail: float | None = None
    plain_sgd: bool = False
    learning_rate: float = NNUNET_LEARNING_RATE
    epochs: int = NNUNET_EPOCHS
    iterations: int = NNUNET_ITERATIONS
    #: Whether the name has a column of the case table before the options.
    has_column: ClassVar[bool] = False
    # What only some trainers choose, with the fields of their options.
    as_weights = False
    auto_beta = False
    normalised = False
    exploration = 0.0
    smoothing = 0.0
    subvolumes = (1, 1, 1)

    def __post_init__(self) -> None:
        self._check_values()

        warmup = getattr(self, "warmup", 0)
        if not 0 <= warmup < self.epochs:
            raise ValueError(
                f"`warmup` must be fewer than the {count(self.epochs, 'epoch')} of the training, "
                f"got {warmup!r}."
            )

        for options, why in self._without_effect():
            if options:
                raise ValueError(f"`{options[0].word}` has no effect {why} Leave it out.")

    def _check_values(self) -> None:
        words = {option.field: option.word for option in OPTIONS}
        for names, interval in _INTERVALS.items():
            for name in names:
                value = getattr(self, name, None)
                if value is not None:
                    check_number(words[name], value, interval)

    def _without_effect(self) -> Iterable[Idle]:
        """Options that would have no effect with the others, and why, where they are given.

        Such options are refused, so that one configuration has one name.
        """
        return ()

    def rule(self, groups: Sequence[str] = (), rarity: NDArray[np.float64] | None = None) -> Rule:
        """What decides how likely each case is to be drawn.

        Args:
            groups: The group of each case, which only `GroupOptions` use.
            rarity: How often each case is drawn for its image, relative to uniform draws, shape
                (n,), with a mean of 1; None where images are not looked at, see `cap_of_kinds`.
        """
        return UNIFORM

    @property
    def cap_of_kinds(self) -> float:
        """How many times as often as others a case of a rare kind of images is drawn at most.

        It is 1 where images are not looked at.
        """
        return 1.0

    @property
    def importance(self) -> "ImportanceWeights | None":
        """The importance weights, or None if every drawn case counts the same."""
        return None

    @property
    def history(self) -> History:
        """How the losses of the cases are collected."""
        return History()

    def value_in_effect(self, field: str) -> Any:
        """The value that counts for a field: where it is None, another option may stand for one."""
        return getattr(self, field)

    @property
    def validation_iterations(self) -> int:
        """Validation iterations per epoch, in nnU-Net's proportion to the training iterations."""
        proportional = self.iterations * NNUNET_VALIDATION_ITERATIONS / NNUNET_ITERATIONS
        return max(1, round(proportional))

    @classmethod
    def known_options(cls) -> list[Option]:
        """The options that the trainer's name can give, in their order.

        A switch that is on by default is left out, because a name has nothing to say about it.
        """
        own_fields = {field.name for field in fields(cls)}
        options = [option for option in OPTIONS if option.field in own_fields]
        return [option for option in options if option.default_in(cls) != "on"]

    def suffix(self) -> str:
        """The part of the trainer's name that gives these options.

        It is empty if all have their defaults.
        """
        words = [option.write(getattr(self, option.field)) for option in self.given_options()]
        return "".join(f"_{word}" for word in words)

    def given_options(self, *only: str) -> list[Option]:
        """The options that differ from their defaults, in the order of names.

        Args:
            only: Fields to look at; without any, all are looked at.
        """
        defaults = {field.name: field.default for field in fields(self)}

        options = []
        for option in self.known_options():
            if only and option.field not in only:
                continue

            value = getattr(self, option.field)
            is_default = value == defaults[option.field]
            if not is_default and option.write(value):
                options.append(option)
        return options


@dataclass(frozen=True, kw_only=True)
class HardnessOptions(TrainerOptions, History):
    """Options of every trainer that draws by stale losses; see `TrainerOptions` and `History`."""

    @property
    def history(self) -> History:
        """How the losses of the cases are collected."""
        return self

    def _without_effect(self) -> Iterator[Idle]:
        if self.hardness != "pooled":
            yield self.given_options("memory"), "without the pooled hardness (`hardPooled`)."
        yield from super()._without_effect()


Options = TypeVar("Options", bound=TrainerOptions)


def options_from_name(name: str, *, base: str, kind: type[Options]) -> Options:
    """Read the options of a class from a trainer's name.

    A name is refused unless it is written in the one way in which nnU-Net finds the model again;
    the message says how to write it.

    Args:
        name: What follows nnU-Net's ``-tr``: ``base`` and the options.
        base: The trainer's name without options.
        kind: The class of the options.

    Raises:
        ValueError: If the name cannot be read, or has to be written in another way.

    Example:
        >>> from nnunet_dro.trainers.options import DROOptions
        >>> base = "nnUNetTrainerDRO"
        >>> options = options_from_name("nnUNetTrainerDRO_beta10", base=base, kind=DROOptions)
        >>> options.beta, options.importance_sampling
        (10.0, False)
    """
    rest = name.removeprefix(base)
    if rest and not rest.startswith("_"):
        raise ValueError(f"`{name}` must have an underscore after {base}. {_valid_options(kind)}")

    words = rest.split("_")[1:]
    values: dict[str, Any] = {}
    if kind.has_column:
        column = _leading_column(words)
        _refuse_misspelt_switches(column, name, kind)
        values["column"] = column
        if column:
            words = words[len(column.split("_")) :]
    values |= _read_words(words, name, kind)

    try:
        options = kind(**values)
    except ValueError as error:
        raise ValueError(f"`{name}`: {error} {_valid_options(kind)}") from error

    right = base + options.suffix()
    if right != name:
        raise ValueError(
            f"`{name}` must be written `{right}`: one configuration has one name (fixed order, "
            "defaults left out), because nnU-Net finds the model again by its name."
        )
    return options


def _leading_column(words: list[str]) -> str:
    """The words before the first option of any trainer.

    The name of a column may contain underscores.
    """
    for n_words, word in enumerate(words):
        if any(option.pattern.fullmatch(word) for option in OPTIONS):
            return "_".join(words[:n_words])
    return "_".join(words)


def _refuse_misspelt_switches(column: str, name: str, kind: type[TrainerOptions]) -> None:
    """Raise an error if a column would take in an option that is written in the wrong case."""
    forms = [option.form for option in kind.known_options() if "<" not in option.form]
    switches = {form.lower(): form for form in forms}
    for word in column.split("_")[1:]:
        if right := switches.get(word.lower()):
            raise ValueError(
                f"`{word}` in `{name}` must be written {right}. {_valid_options(kind)}"
            )


def _read_words(words: list[str], name: str, kind: type[TrainerOptions]) -> dict[str, Any]:
    """The values that the words of a name give, by field."""
    values: dict[str, Any] = {}
    forms: dict[str, str] = {}
    for word in words:
        option, groups = _option_for(word, name, kind)

        earlier_form = forms.get(option.field)
        if earlier_form == option.form:
            raise ValueError(
                f"`{name}` gives the option {option.form} twice. {_valid_options(kind)}"
            )
        if earlier_form is not None:
            raise ValueError(
                f"`{name}` gives both {earlier_form} and {option.form}. Choose one. "
                f"{_valid_options(kind)}"
            )

        try:
            values[option.field] = option.read(*groups)
        except (ValueError, OverflowError) as error:
            raise ValueError(
                f"`{word}` in `{name}` is not a number that nnunet-dro can read: {error}."
            ) from error
        forms[option.field] = option.form
    return values


def _option_for(word: str, name: str, kind: type[TrainerOptions]) -> tuple[Option, tuple[str, ...]]:
    """The option that a word of a name gives, and what its pattern captures in the word."""
    for option in kind.known_options():
        if match := option.pattern.fullmatch(word):
            return option, match.groups()

    forms = {option.word: option.form for option in kind.known_options()}
    near = get_close_matches(re.sub(r"[\d.]+", "", word), forms, n=1)
    cure = f"Did you mean {forms[near[0]]}? " if near else ""
    raise ValueError(
        f"`{word}` in `{name}` is not an option of this trainer. {cure}{_valid_options(kind)}"
    )


def _valid_options(kind: type[TrainerOptions]) -> str:
    forms = ", ".join(option.form for option in kind.known_options())
    if not kind.has_column:
        return f"Options, in this order: {forms}."
    return (
        f"Options, the column first, then in this order: {forms}. Rename a column that has an "
        "option's name between underscores (T2 in has_T2_lesion)."
    )
