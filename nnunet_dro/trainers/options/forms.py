"""How each option is written in a trainer's name."""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Option:
    """One option as it is written in a trainer's name.

    This is the only place that describes the option: the command line, the documentation and errors take their texts
    from here. Its value is a field of the trainer's options, where its type, default and range are.

    Attributes:
        field: The field of the trainer's options that it sets.
        form: How it is written, for users.
        pattern: How it is written, for the parser, which passes the groups to `read`.
        read: Turns the groups into a value.
        write: Turns a value into the text of the option; '' if another option of the same field writes this value.
        help: What it does: one or two sentences that stand alone.
        source: Short reference; '' if it is from nnU-Net or this package.
    """

    field: str
    form: str
    pattern: re.Pattern[str]
    read: Callable[..., Any]
    write: Callable[[Any], str]
    help: str
    source: str = ""

    def default_in(self, kind: type) -> str:
        """The default in a class of options as names would write it, ``on`` or ``off``."""
        value = {field.name: field.default for field in fields(kind)}[self.field]
        written = "" if value is None else self.write(value)
        if "<" not in self.form:
            return "on" if written else "off"
        before, after = re.split("<.*>", self.form)
        return written[len(before) : len(written) - len(after)] or "off"

    @property
    def word(self) -> str:
        """The part that does not depend on the value: ``beta`` of ``beta<x>``, ``epochs`` of ``<n>epochs``."""
        return re.sub("<.*>", "", self.form)


def number(value: float) -> str:
    """A number as names write it: digits and a point, without an exponent."""
    return np.format_float_positional(value, trim="-")


_NUMBER = r"(\d+\.?\d*|\.\d+)"
_FIDON = "Fidon et al. 2022"
_WANG = "Wang et al. 2024 (GI-LS)"


def _of_number(field: str, word: str, what: str, help: str, *, source: str = "") -> Option:
    pattern = re.compile(f"{word}{_NUMBER}")
    return Option(field, f"{word}<{what}>", pattern, float, lambda value: f"{word}{number(value)}", help, source)


def _of_count(field: str, form: str, help: str, *, source: str = "") -> Option:
    pattern = re.compile(re.sub("<.*>", r"(\\d+)", form))
    return Option(field, form, pattern, int, lambda count: re.sub("<.*>", str(count), form), help, source)


def _switch(field: str, word: str, value: Any, help: str, *, source: str = "") -> Option:
    pattern = re.compile(word)
    return Option(
        field, word, pattern, lambda: value, lambda other: word if other == value else "", help, source=source
    )


#: All options, in the order in which names give them.
OPTIONS = (
    _of_number(
        "share",
        "share",
        "s",
        "Draws as if from a share s of the cases: a case is drawn with probability softmax(beta * stale loss), where "
        "beta follows the losses so that s of the cases are effective; 0 < s < 1.",
        source="Hu and Hong 2013",
    ),
    _switch(
        "earned",
        "earned",
        True,
        "Draws by hardness only as far as the hardest cases get better: the share falls from 1, which is uniform, as "
        "their loss follows the loss of the others.",
    ),
    _of_number(
        "beta",
        "beta",
        "x",
        "Robustness: a case is drawn with probability softmax(x * stale loss), instead of by a share. 0 is plain "
        "nnU-Net.",
        source=f"{_FIDON}, Algorithm 1",
    ),
    _switch(
        "auto_beta",
        "betaauto",
        True,
        "Sets beta to 1 / standard deviation between the cases after each epoch. It is 0 until all cases were seen.",
        source=f"{_FIDON}, on the choice of beta",
    ),
    _switch(
        "chi2",
        "chi2",
        True,
        "Uses the Pearson divergence instead of KL: the probabilities are (1 + beta * stale loss / 2) / n, projected "
        "onto the simplex. Easy cases get probability 0.",
        source="Fidon et al. 2020, eq. (21)",
    ),
    _of_number(
        "cvar",
        "cvar",
        "a",
        "Draws uniformly from the hardest share a of the cases (conditional value at risk) instead of by beta; "
        "0 < a < 1.",
        source="Rockafellar and Uryasev 2000",
    ),
    _of_number(
        "doro",
        "doro",
        "e",
        "With cvar, sets the hardest share e of the cases aside as suspected outliers and names them in the log.",
        source="Zhai et al. 2021",
    ),
    _of_number("nu", "nu", "x", "Step size of the group weights per iteration.", source="Sagawa et al. 2020"),
    _of_number(
        "adjustment",
        "adj",
        "C",
        "Adds C / sqrt(number of cases) to the loss of each group, so that small groups count as harder.",
        source="Sagawa et al. 2020, eq. (5)",
    ),
    _of_number(
        "smoothing",
        "alpha",
        "a",
        "Label smoothing: the reference of the cross-entropy gives 1 - a to the label and shares a among the other "
        "classes; 0 <= a <= 0.5.",
        source=_WANG,
    ),
    _of_count(
        "steps",
        "T<n>",
        "Number of gradient steps from a batch to the generated batch, 1 to 15.",
        source=_WANG,
    ),
    _of_number(
        "step_size",
        "eta",
        "x",
        "Size of the gradient steps to the generated batch.",
        source=_WANG,
    ),
    _of_number(
        "penalty",
        "gamma",
        "x",
        "Keeps the features of the generated batch close to the original ones, with the penalty "
        "x / 2 * squared distance.",
        source=_WANG,
    ),
    _of_number(
        "largest_change",
        "rms",
        "e",
        "Bounds the root mean square change of a generated image by e standard deviations of the image.",
    ),
    _switch(
        "importance_sampling",
        "IS",
        True,
        "Turns the importance weights exp(beta * change of the stale loss) on.",
        source=_FIDON,
    ),
    _switch(
        "importance_sampling",
        "noIS",
        False,
        "Turns the importance weights exp(beta * change of the stale loss) off: every drawn case counts the same.",
        source=_FIDON,
    ),
    _switch(
        "exact_ratio",
        "exactIS",
        True,
        "Computes the importance weights from the exact ratio of the probabilities, which never exceeds 1 / p.",
        source=f"{_FIDON}, eq. (19)",
    ),
    _switch(
        "normalised",
        "normIS",
        True,
        "Divides the importance weights by their running mean, so that the size of the steps stays the same.",
    ),
    Option(
        "clip",
        "clip<lo>to<hi>",
        re.compile(f"clip{_NUMBER}to{_NUMBER}"),
        lambda low, high: (float(low), float(high)),
        lambda clip: f"clip{number(clip[0])}to{number(clip[1])}",
        "Smallest and largest importance weight.",
        source=_FIDON,
    ),
    _of_number(
        "momentum",
        "momentum",
        "m",
        "Averages the losses of a case over its visits: stale loss <- m * stale loss + (1 - m) * loss, 0 <= m < 1. "
        "0 keeps the last loss.",
    ),
    _of_count(
        "warmup",
        "warmup<n>",
        "Draws cases uniformly for the first n epochs, while losses are collected. GILS generates no batches in them.",
        source="Fidon et al. 2020, one epoch",
    ),
    _of_number(
        "exploration",
        "explore",
        "e",
        "Draws a share e of all cases uniformly, so that no stale loss grows old; 0 <= e <= 1.",
    ),
    _switch(
        "replace",
        "replace",
        True,
        "Draws the cases of a batch with replacement, as nnU-Net does, instead of distinct ones.",
    ),
    Option(
        "subvolumes",
        "sub<a>x<b>x<c>",
        re.compile(r"sub(\d+)x(\d+)x(\d+)"),
        lambda *grid: tuple(int(n) for n in grid),
        lambda grid: "sub" + "x".join(str(n) for n in grid),
        "Divides each case into a grid of sub-volumes, each with a stale loss of its own. A draw also decides in which "
        "sub-volume the patch is centred.",
        source=f"{_FIDON}, section 4.2.1",
    ),
    _switch(
        "hardness",
        "hardPooled",
        "pooled",
        "Uses Dice and cross-entropy of the last patches of a case together as hardness. The training loss does not "
        "change.",
    ),
    _switch(
        "hardness",
        "hardLoss",
        "loss",
        "Uses the training loss of the last patch of a case as hardness.",
        source=_FIDON,
    ),
    _switch("hardness", "hardCE", "ce", "Uses the cross-entropy alone as hardness. The training loss does not change."),
    _switch(
        "hardness",
        "hardPresent",
        "present",
        "Leaves the Dice of classes that are in neither patch nor prediction out of the hardness. The training loss "
        "does not change.",
    ),
    _of_number(
        "memory",
        "memory",
        "m",
        "Weight of the past in the pooled hardness, at each visit of a case; 0 <= m < 1. About 1 / (1 - m) patches "
        "count.",
    ),
    _of_number(
        "logit_adjustment",
        "la",
        "tau",
        "Logit adjustment: adds tau * log(share of the class's voxels) to the logits of the cross-entropy.",
        source="Menon et al. 2021, eq. (10)",
    ),
    _of_number(
        "vector_scaling",
        "vs",
        "gamma",
        "Multiplies the logits of the cross-entropy by (share of the class / largest share)^gamma. Together with la "
        "this is the vector-scaling loss.",
        source="Ye et al. 2020; Kini et al. 2021",
    ),
    _of_number(
        "polynomial_tail",
        "poly",
        "alpha",
        "Gives the cross-entropy a polynomial tail: voxels with a large margin keep a gradient of the order of "
        "margin^-(alpha + 1).",
        source="Wang et al. 2022",
    ),
    _switch(
        "plain_sgd",
        "plainSGD",
        True,
        "Trains with SGD without momentum instead of nnU-Net's Nesterov momentum of 0.99.",
        source=_FIDON,
    ),
    _of_number(
        "learning_rate",
        "lr",
        "x",
        "Learning rate of the first epoch; it falls to 0 over the epochs as in nnU-Net.",
    ),
    _of_count("epochs", "<n>epochs", "Number of epochs."),
    _of_count(
        "iterations",
        "<n>iters",
        "Training iterations per epoch; the validation iterations change in proportion.",
    ),
)
