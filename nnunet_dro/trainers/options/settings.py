"""Options of a trainer, and the one name that says them: `nnUNetTrainerDRO_beta10_noIS_20epochs`."""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from nnunet_dro.sampling import KL, Chi2, CVaR, Rule

#: nnU-Net's own length of a training; naming it would give one configuration two names.
NNUNET_EPOCHS, NNUNET_ITERATIONS, NNUNET_VALIDATION_ITERATIONS = 1000, 250, 50


@dataclass(frozen=True)
class Option:
    """One option as it is written in a trainer's name.

    Attributes:
        field: The attribute of `DROOptions` it sets.
        form: How it is written, for people.
        pattern: How it is written, for the parser; its groups go to `read`.
        read: Groups to value.
        write: Value to the option's text.
        help: One line.
    """

    field: str
    form: str
    pattern: re.Pattern[str]
    read: Callable[..., Any]
    write: Callable[[Any], str]
    help: str


def _number(value: float) -> str:
    return np.format_float_positional(value, trim="-")


_NUMBER = r"(\d+\.?\d*|\.\d+)"

#: In the order in which a name gives them.
OPTIONS = (
    Option(
        "beta",
        "beta<x>",
        re.compile(f"beta{_NUMBER}"),
        float,
        lambda beta: f"beta{_number(beta)}",
        "robustness: volumes are drawn with probability softmax(x * stale loss); 0 is plain nnU-Net (default 100)",
    ),
    Option(
        "chi2",
        "chi2",
        re.compile("chi2"),
        lambda: True,
        lambda _: "chi2",
        "Pearson divergence instead of KL: easy volumes get probability 0 (projection of (1 + x L / 2) / n)",
    ),
    Option(
        "cvar",
        "cvar<a>",
        re.compile(f"cvar{_NUMBER}"),
        float,
        lambda alpha: f"cvar{_number(alpha)}",
        "draw uniformly from the worst share a of the volumes, 0 < a < 1 (conditional value at risk), not by beta",
    ),
    Option(
        "doro",
        "doro<e>",
        re.compile(f"doro{_NUMBER}"),
        float,
        lambda epsilon: f"doro{_number(epsilon)}",
        "with cvar: set the hardest share e aside as suspected outliers, named in the log (Zhai et al. 2021)",
    ),
    Option(
        "importance_sampling",
        "noIS",
        re.compile("noIS"),
        lambda: False,
        lambda _: "noIS",
        "no importance weights: every drawn volume counts the same (default: weights exp(beta * change of the loss))",
    ),
    Option(
        "exact_ratio",
        "exactIS",
        re.compile("exactIS"),
        lambda: True,
        lambda _: "exactIS",
        "importance weights from the exact ratio of the probabilities (Fidon et al. 2022, eq. 19), never above 1/p",
    ),
    Option(
        "clip",
        "clip<lo>to<hi>",
        re.compile(f"clip{_NUMBER}to{_NUMBER}"),
        lambda low, high: (float(low), float(high)),
        lambda clip: f"clip{_number(clip[0])}to{_number(clip[1])}",
        "smallest and largest importance weight (default 0.1to10)",
    ),
    Option(
        "momentum",
        "momentum<m>",
        re.compile(f"momentum{_NUMBER}"),
        float,
        lambda momentum: f"momentum{_number(momentum)}",
        "stale loss <- m * stale loss + (1 - m) * loss, 0 <= m < 1 (default 0: the last loss)",
    ),
    Option(
        "warmup",
        "warmup<n>",
        re.compile(r"warmup(\d+)"),
        int,
        lambda epochs: f"warmup{epochs}",
        "uniform sampling for the first n epochs, while losses are collected (default 0)",
    ),
    Option(
        "plain_sgd",
        "plainSGD",
        re.compile("plainSGD"),
        lambda: True,
        lambda _: "plainSGD",
        "SGD without momentum, instead of nnU-Net's Nesterov momentum of 0.99",
    ),
    Option(
        "epochs",
        "<n>epochs",
        re.compile(r"(\d+)epochs"),
        int,
        lambda epochs: f"{epochs}epochs",
        f"length of the training (default {NNUNET_EPOCHS}, as nnU-Net)",
    ),
    Option(
        "iterations",
        "<n>iters",
        re.compile(r"(\d+)iters"),
        int,
        lambda iterations: f"{iterations}iters",
        f"training iterations per epoch, validation in proportion (default {NNUNET_ITERATIONS}, as nnU-Net)",
    ),
)


@dataclass(frozen=True)
class DROOptions:
    """What `nnUNetTrainerDRO` can be told, checked.

    Attributes:
        beta: Robustness, 1/loss units, >= 0. 0 is plain nnU-Net.
        chi2: Pearson divergence instead of KL.
        cvar: Draw from this share of the cases, the worst, in (0, 1); None to draw by beta.
        doro: With ``cvar``, set this share aside first, the hardest, in (0, 1); 0 sets none aside.
        importance_sampling: Whether importance weights correct the stale losses; only KL has them.
        exact_ratio: Whether importance weights are the exact ratio of the probabilities.
        clip: Smallest and largest importance weight, 0 <= low <= 1 <= high, low < high.
        momentum: Weight of the past in the history of losses, in [0, 1).
        warmup: Epochs of uniform sampling at the start.
        plain_sgd: SGD without momentum instead of nnU-Net's Nesterov momentum (Fidon et al. 2022, Table 3).
        epochs: Number of epochs.
        iterations: Training iterations per epoch.

    Raises:
        ValueError: If a number is out of its range, or an option has no effect beside another.

    Source: defaults from Fidon et al. 2022 (MELBA).
    """

    beta: float = 100.0
    chi2: bool = False
    cvar: float | None = None
    doro: float = 0.0
    importance_sampling: bool = True
    exact_ratio: bool = False
    clip: tuple[float, float] = (0.1, 10.0)
    momentum: float = 0.0
    warmup: int = 0
    plain_sgd: bool = False
    epochs: int = NNUNET_EPOCHS
    iterations: int = NNUNET_ITERATIONS

    def __post_init__(self) -> None:
        low, high = self.clip
        rules = (
            (np.isfinite(self.beta) and self.beta >= 0, "beta", "a number >= 0"),
            (self.cvar is None or 0 < self.cvar < 1, "cvar", "a number in (0, 1)"),
            (0 <= self.doro < 1, "doro", "a number in (0, 1)"),
            (low < high and 0 <= low <= 1 <= high < np.inf, "clip", "two numbers 0 <= lo <= 1 <= hi with lo < hi"),
            (0 <= self.momentum < 1, "momentum", "a number in [0, 1)"),
            (self.epochs >= 1, "epochs", "at least 1"),
            (0 <= self.warmup < self.epochs, "warmup", f"fewer than the {self.epochs} epochs of the training"),
            (self.iterations >= 1, "iters", "at least 1"),
        )
        for holds, option, rule in rules:
            if not holds:
                value = getattr(self, "iterations" if option == "iters" else option)
                raise ValueError(f"`{option}` must be {rule}, got {value!r}.")
        if reason := self._without_effect():
            raise ValueError(f"{reason} Leave it out.")

    def _without_effect(self) -> str | None:
        """Why an option does nothing beside another: a configuration has one name."""
        clip, beta = self.clip != DROOptions.clip, self.beta != DROOptions.beta
        given = (("noIS", not self.importance_sampling), ("exactIS", self.exact_ratio), ("clip", clip))
        weighing = [name for name, is_given in given if is_given]
        if self.chi2 and self.cvar is not None:
            return "`chi2` has no effect with `cvar`, which draws by rank."
        if self.cvar is not None and beta:
            return "`beta` has no effect with `cvar`, which draws by rank."
        if self.doro and self.cvar is None:
            return "`doro` has no effect without `cvar<a>`, the share to draw from."
        if (self.chi2 or self.cvar is not None) and weighing:
            return f"`{weighing[0]}` has no effect with `{'chi2' if self.chi2 else 'cvar'}`: only KL has weights."
        if not self.importance_sampling and len(weighing) > 1:
            return f"`{weighing[1]}` has no effect with `noIS`: there are no weights."
        steering = [*weighing, *(["chi2"] if self.chi2 else []), *(["warmup"] if self.warmup else [])]
        if self.beta == 0 and steering:
            return f"`{steering[0]}` has no effect with `beta0`: all volumes count the same."
        return None

    @property
    def rule(self) -> Rule:
        """What decides how likely each case is."""
        if self.cvar is not None:
            return CVaR(self.cvar, self.doro)
        return Chi2(self.beta) if self.chi2 else KL(self.beta)

    @property
    def validation_iterations(self) -> int:
        """Validation iterations per epoch, in nnU-Net's proportion to the training iterations."""
        return max(1, round(self.iterations * NNUNET_VALIDATION_ITERATIONS / NNUNET_ITERATIONS))

    def suffix(self) -> str:
        """The part of the name that says these options, '' for the defaults."""
        defaults = {field.name: field.default for field in fields(self)}
        values = {option: getattr(self, option.field) for option in OPTIONS}
        return "".join(f"_{o.write(value)}" for o, value in values.items() if value != defaults[o.field])


def options_from_name(name: str, *, base: str) -> DROOptions:
    """Read the options that a trainer's name says.

    Args:
        name: What follows nnU-Net's ``-tr``.
        base: The trainer's name without options, which ``name`` starts with.

    Returns:
        The options.

    Raises:
        ValueError: If an option is unknown, there twice, out of range, without effect, or not written in the one way
            that finds the model again (another order, a default, 10.0 for 10); the message says what to write.
    """
    given: dict[str, Any] = {}
    for word in name[len(base) :].split("_")[1:] if name != base else []:
        option, groups = _option_for(word, name)
        if option.field in given:
            raise ValueError(f"`{name}` gives the option {option.form} twice. {_valid_options()}")
        try:
            given[option.field] = option.read(*groups)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"`{word}` in `{name}` is not a number nnunet-dro can read: {error}.") from error
    if not name[len(base) :].startswith("_") and name != base:
        raise ValueError(f"`{name}` must have an underscore after {base}. {_valid_options()}")
    try:
        options = DROOptions(**given)
    except ValueError as error:
        raise ValueError(f"`{name}`: {error} {_valid_options()}") from error
    right = base + options.suffix()
    if right != name:
        raise ValueError(
            f"`{name}` must be written `{right}`: one configuration has one name (fixed order, defaults left out), "
            f"because nnU-Net finds the model again by its name."
        )
    return options


def _option_for(word: str, name: str) -> tuple[Option, tuple[str, ...]]:
    for option in OPTIONS:
        if match := option.pattern.fullmatch(word):
            return option, match.groups()
    raise ValueError(f"`{word}` in `{name}` is not an option of this trainer. {_valid_options()}")


def _valid_options() -> str:
    return f"Options, in this order: {', '.join(option.form for option in OPTIONS)}."
