"""How each option is written in a trainer's name."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Option:
    """One option as it is written in a trainer's name.

    Attributes:
        field: The attribute of the trainer's options it sets.
        form: How it is written, for people.
        pattern: How it is written, for the parser; its groups go to `read`.
        read: Groups to value.
        write: Value to the option's text; '' where another option of the same field writes the value.
        help: One line.
        source: Where it comes from, short; '' where that is nnU-Net or this package.
    """

    field: str
    form: str
    pattern: re.Pattern[str]
    read: Callable[..., Any]
    write: Callable[[Any], str]
    help: str
    source: str = ""

    @property
    def word(self) -> str:
        """What is written whatever the value: ``beta`` of ``beta<x>``, ``epochs`` of ``<n>epochs``."""
        return re.sub("<.*>", "", self.form)


def number(value: float) -> str:
    """A number as names have it: digits and a point, no exponent."""
    return np.format_float_positional(value, trim="-")


_NUMBER = r"(\d+\.?\d*|\.\d+)"
_FIDON = "Fidon et al. 2022"
_WANG = "Wang et al. 2024 (GI-LS)"


def _of_number(field: str, word: str, what: str, help: str, source: str = "") -> Option:
    pattern = re.compile(f"{word}{_NUMBER}")
    return Option(field, f"{word}<{what}>", pattern, float, lambda value: f"{word}{number(value)}", help, source)


def _switch(field: str, word: str, value: Any, help: str, source: str = "") -> Option:
    pattern = re.compile(word)
    return Option(field, word, pattern, lambda: value, lambda other: word if other == value else "", help, source)


#: In the order in which a name gives them.
OPTIONS = (
    _of_number(
        "beta",
        "beta",
        "x",
        "robustness: volumes are drawn with probability softmax(x * stale loss); 0 is plain nnU-Net (default 100)",
        f"{_FIDON}, Algorithm 1",
    ),
    _switch(
        "auto_beta",
        "betaauto",
        True,
        "beta = 1 / standard deviation of the stale losses, estimated again after each epoch; 0 until all were seen",
        f"{_FIDON}, on the choice of beta",
    ),
    _switch(
        "chi2",
        "chi2",
        True,
        "Pearson divergence instead of KL: easy volumes get probability 0 (projection of (1 + x L / 2) / n)",
        "Fidon et al. 2020, eq. (21)",
    ),
    _of_number(
        "cvar",
        "cvar",
        "a",
        "draw uniformly from the worst share a of the volumes, 0 < a < 1 (conditional value at risk), not by beta",
        "Rockafellar and Uryasev 2000",
    ),
    _of_number(
        "doro",
        "doro",
        "e",
        "with cvar: set the hardest share e aside as suspected outliers, named in the log",
        "Zhai et al. 2021",
    ),
    _of_number("nu", "nu", "x", "step of the group weights per iteration (default 0.01)", "Sagawa et al. 2020"),
    _of_number(
        "adjustment",
        "adj",
        "C",
        "small groups count as harder: C / sqrt(cases of the group) is added to a group's loss (default 0)",
        "Sagawa et al. 2020, eq. (5)",
    ),
    _of_number(
        "smoothing",
        "alpha",
        "a",
        "labels of 1 - a in the cross-entropy, the rest for the other classes, 0 <= a <= 0.5 (default 0.1)",
        _WANG,
    ),
    Option(
        "steps",
        "T<n>",
        re.compile(r"T(\d+)"),
        int,
        lambda steps: f"T{steps}",
        "gradient steps from a batch to the generated one, 1 to 15 (default 5)",
        _WANG,
    ),
    _of_number("step_size", "eta", "x", "size of these steps (default 0.03)", _WANG),
    _of_number(
        "penalty",
        "gamma",
        "x",
        "keeps the generated features near the original ones: x / 2 * squared distance (default 0.001)",
        _WANG,
    ),
    _switch(
        "importance_sampling",
        "noIS",
        False,
        "no importance weights: every drawn volume counts the same (default: weights exp(beta * change of the loss))",
        _FIDON,
    ),
    _switch(
        "exact_ratio",
        "exactIS",
        True,
        "importance weights from the exact ratio of the probabilities, never above 1/p",
        f"{_FIDON}, eq. (19)",
    ),
    _switch("normalised", "normIS", True, "importance weights divided by their running mean: the step keeps its size"),
    Option(
        "clip",
        "clip<lo>to<hi>",
        re.compile(f"clip{_NUMBER}to{_NUMBER}"),
        lambda low, high: (float(low), float(high)),
        lambda clip: f"clip{number(clip[0])}to{number(clip[1])}",
        "smallest and largest importance weight (default 0.1to10)",
        _FIDON,
    ),
    _of_number(
        "momentum",
        "momentum",
        "m",
        "stale loss <- m * stale loss + (1 - m) * loss, 0 <= m < 1 (default 0: the last loss)",
    ),
    Option(
        "warmup",
        "warmup<n>",
        re.compile(r"warmup(\d+)"),
        int,
        lambda epochs: f"warmup{epochs}",
        "uniform sampling for the first n epochs, while losses are collected (default 0)",
        "Fidon et al. 2020, one epoch",
    ),
    _switch(
        "replace",
        "replace",
        True,
        "draw the cases of a batch with replacement, as nnU-Net does (default: distinct cases)",
    ),
    Option(
        "subvolumes",
        "sub<a>x<b>x<c>",
        re.compile(r"sub(\d+)x(\d+)x(\d+)"),
        lambda *grid: tuple(int(n) for n in grid),
        lambda grid: "sub" + "x".join(str(n) for n in grid),
        "a grid of sub-volumes per volume, each with its own stale loss; a draw fixes where the patch's centre lies",
        f"{_FIDON}, section 4.2.1",
    ),
    _switch("hardness", "hardCE", "ce", "the cross-entropy alone counts as hardness; the training loss stays"),
    _switch(
        "hardness",
        "hardPresent",
        "present",
        "hardness without the Dice of classes that are in neither patch nor prediction; the training loss stays",
    ),
    _of_number(
        "logit_adjustment",
        "la",
        "tau",
        "cross-entropy with tau * log(share of the class's voxels) added to the logits",
        "Menon et al. 2021, eq. (10)",
    ),
    _of_number(
        "vector_scaling",
        "vs",
        "gamma",
        "cross-entropy with logits multiplied by (share of the class / largest share)^gamma; with la the VS loss",
        "Ye et al. 2020; Kini et al. 2021",
    ),
    _of_number(
        "polynomial_tail",
        "poly",
        "alpha",
        "polynomially tailed cross-entropy: voxels with a large margin keep a gradient, of order margin^-(alpha + 1)",
        "Wang et al. 2022",
    ),
    _switch("plain_sgd", "plainSGD", True, "SGD without momentum, not nnU-Net's Nesterov momentum of 0.99", _FIDON),
    Option(
        "epochs",
        "<n>epochs",
        re.compile(r"(\d+)epochs"),
        int,
        lambda epochs: f"{epochs}epochs",
        "length of the training (default 1000, as nnU-Net)",
    ),
    Option(
        "iterations",
        "<n>iters",
        re.compile(r"(\d+)iters"),
        int,
        lambda iterations: f"{iterations}iters",
        "training iterations per epoch, validation in proportion (default 250, as nnU-Net)",
    ),
)
