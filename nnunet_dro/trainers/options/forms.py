"""How each option is written in a trainer's name."""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Option:
    """An option in a trainer's name.

    The command line, the documentation and errors take their texts from here.
    """

    field: str  # the field of the trainer's options that it sets
    form: str  # how it is written, for users
    pattern: re.Pattern[str]  # how it is written, for the parser, which passes the groups to `read`
    read: Callable[..., Any]  # turns the groups into a value
    #: Turns a value into the text of the option; '' if another option of the same field writes this
    #: value.
    write: Callable[[Any], str]
    help: str  # what it does: one or two sentences that stand alone
    source: str = ""  # short reference; '' if it is from nnU-Net or this package

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
        """The part that does not depend on the value.

        ``beta`` of ``beta<x>``, ``epochs`` of ``<n>epochs``.
        """
        return re.sub("<.*>", "", self.form)


def number(value: float) -> str:
    """A number as names write it: digits and a point, without an exponent."""
    return np.format_float_positional(value, trim="-")


_NUMBER = r"(\d+\.?\d*|\.\d+)"
_FIDON = "Fidon et al. 2022"
_WANG = "Wang et al. 2024"


def _number(form: str, help: str, *, field: str = "", source: str = "") -> Option:
    before, after = re.split("<.*>", form)
    pattern = re.compile(f"{before}{_NUMBER}{after}")
    return Option(
        field or before,
        form,
        pattern,
        float,
        lambda value: f"{before}{number(value)}{after}",
        help,
        source,
    )


def _count(field: str, form: str, help: str, *, source: str = "") -> Option:
    pattern = re.compile(re.sub("<.*>", r"(\\d+)", form))
    return Option(
        field, form, pattern, int, lambda count: re.sub("<.*>", str(count), form), help, source
    )


def _switch(
    word: str, help: str, *, field: str = "", value: Any = True, source: str = ""
) -> Option:
    read = lambda: value
    pattern = re.compile(word)
    return Option(
        field or word,
        word,
        pattern,
        read,
        lambda other: word if other == value else "",
        help,
        source,
    )


#: All options, in the order in which names give them.
OPTIONS = (
    _number(
        "earned<s>",
        "Draws by hardness only as far as the hardest cases are learnt: uniformly at first, and at most as if from a "
        "share s of the cases; 0 < s < 1.",
    ),
    _number(
        "share<s>",
        "Draws as if from a share s of the cases, whether the hardest are learnt or not; 0 < s < 1. share0.5 was the "
        "default of version 0.2. With IW it is the share of the cases of each group.",
        source="Hu and Hong 2013",
    ),
    _number(
        "beta<x>",
        "Robustness: a case is drawn with probability softmax(x * stale loss), instead of by a share. 0 is plain "
        "nnU-Net.",
        source=f"{_FIDON}, Algorithm 1",
    ),
    _switch(
        "betaauto",
        "Sets beta to 1 / standard deviation between the cases after each epoch. It is 0 until all cases were seen.",
        field="auto_beta",
        source=f"{_FIDON}, on the choice of beta",
    ),
    _switch(
        "chi2",
        "Uses the Pearson divergence instead of KL: the probabilities are (1 + beta * stale loss / 2) / n, projected "
        "onto the simplex. Easy cases get probability 0.",
        source="Fidon et al. 2020, eq. (21)",
    ),
    _number(
        "cvar<a>",
        "Draws uniformly from the hardest share a of the cases (conditional value at risk) instead of by beta; "
        "0 < a < 1.",
        source="Rockafellar and Uryasev 2000",
    ),
    _number(
        "doro<e>",
        "With cvar, sets the hardest share e of the cases aside as suspected outliers and names them in the log.",
        source="Zhai et al. 2021",
    ),
    _switch(
        "asWeights",
        "Reads the column as the weight of every case, not as its group: a case is drawn in proportion to its weight, "
        "and never if that is 0.",
        field="as_weights",
    ),
    _number(
        "power<x>",
        "Draws a group of n cases in proportion to n^(1 - x): with 1 all groups equally often, with 0 all cases; "
        "0 <= x <= 1.",
        source="Mahajan et al. 2018, x = 0.5",
    ),
    _number("nu<x>", "Step size of the group weights per iteration.", source="Sagawa et al. 2020"),
    _number(
        "adj<C>",
        "Adds C / sqrt(number of cases) to the loss of each group, so that small groups count as harder.",
        field="adjustment",
        source="Sagawa et al. 2020, eq. (5)",
    ),
    _number(
        "alpha<a>",
        "Label smoothing: the reference of the cross-entropy gives 1 - a to the label and shares a among the other "
        "classes; 0 <= a <= 0.5.",
        field="smoothing",
        source=_WANG,
    ),
    _count(
        "steps",
        "T<n>",
        "Number of gradient steps from a batch to the generated batch, 1 to 15.",
        source=_WANG,
    ),
    _number(
        "eta<x>",
        "Size of the gradient steps to the generated batch.",
        field="step_size",
        source=_WANG,
    ),
    _number(
        "gamma<x>",
        "Keeps the features of the generated batch close to the original ones, with the penalty "
        "x / 2 * squared distance.",
        field="penalty",
        source=_WANG,
    ),
    _number(
        "rms<e>",
        "Bounds the root mean square change of a generated image by e standard deviations of the image.",
        field="largest_change",
    ),
    _switch(
        "IS",
        "Turns the importance weights exp(beta * change of the stale loss) on.",
        field="importance_sampling",
        source=_FIDON,
    ),
    _switch(
        "noIS",
        "Turns the importance weights exp(beta * change of the stale loss) off: every drawn case counts the same.",
        field="importance_sampling",
        value=False,
        source=_FIDON,
    ),
    _switch(
        "exactIS",
        "Computes the importance weights from the exact ratio of the probabilities, which never exceeds 1 / p.",
        field="exact_ratio",
        source=f"{_FIDON}, eq. (19)",
    ),
    _switch(
        "normIS",
        "Divides the importance weights by their running mean, so that the size of the steps stays the same.",
        field="normalised",
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
    _number(
        "momentum<m>",
        "Averages the losses of a case over its visits: stale loss <- m * stale loss + (1 - m) * loss, 0 <= m < 1. "
        "0 keeps the last loss.",
    ),
    _count(
        "warmup",
        "warmup<n>",
        "Draws cases uniformly for the first n epochs, while losses are collected. GILS generates no batches in them.",
        source="Fidon et al. 2020, one epoch",
    ),
    _number(
        "explore<e>",
        "A share e in [0, 1] of the draws is uniform, so no loss grows old.",
        field="exploration",
    ),
    _switch(
        "replace",
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
        "hardPooled",
        "Uses Dice and cross-entropy of the last patches of a case together as hardness. The training loss does not "
        "change.",
        field="hardness",
        value="pooled",
    ),
    _switch(
        "hardLoss",
        "Uses the training loss of the last patch of a case as hardness.",
        field="hardness",
        value="loss",
        source=_FIDON,
    ),
    _switch(
        "hardCE",
        "Uses the cross-entropy alone as hardness. The training loss does not change.",
        field="hardness",
        value="ce",
    ),
    _switch(
        "hardPresent",
        "Leaves the Dice of classes that are in neither patch nor prediction out of the hardness. The training loss "
        "does not change.",
        field="hardness",
        value="present",
    ),
    _number(
        "memory<m>",
        "Weight of the past in the pooled hardness, at each visit of a case; 0 <= m < 1. About 1 / (1 - m) patches "
        "count.",
    ),
    _number(
        "la<tau>",
        "Logit adjustment: adds tau * log(share of the class's voxels) to the logits of the cross-entropy.",
        field="logit_adjustment",
        source="Menon et al. 2021, eq. (10)",
    ),
    _number(
        "vs<gamma>",
        "Multiplies the logits of the cross-entropy by (share of the class / largest share)^gamma. Together with la "
        "this is the vector-scaling loss.",
        field="vector_scaling",
        source="Ye et al. 2020; Kini et al. 2021",
    ),
    _number(
        "poly<alpha>",
        "Gives the cross-entropy a polynomial tail: voxels with a large margin keep a gradient of the order of "
        "margin^-(alpha + 1).",
        field="polynomial_tail",
        source="Wang et al. 2022",
    ),
    _switch(
        "plainSGD",
        "Trains with SGD without momentum instead of nnU-Net's Nesterov momentum of 0.99.",
        field="plain_sgd",
        source=_FIDON,
    ),
    _number(
        "lr<x>",
        "Learning rate of the first epoch; it falls to 0 as in nnU-Net.",
        field="learning_rate",
    ),
    _count("epochs", "<n>epochs", "Number of epochs."),
    _count(
        "iterations",
        "<n>iters",
        "Training iterations per epoch; the validation iterations change in proportion.",
    ),
)
