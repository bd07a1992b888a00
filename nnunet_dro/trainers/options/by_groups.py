"""Options of the trainers that draw by groups of cases."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nnunet_dro import sampling
from nnunet_dro.bad_input import InputError
from nnunet_dro.trainers.options.by_hardness import DROOptions
from nnunet_dro.trainers.options.settings import (
    HardnessOptions,
    History,
    Idle,
    TrainerOptions,
    options_from_name,
)

#: Characters that one file system or another does not take in the name of a folder; nnU-Net names
#: folders after trainers.
_NOT_IN_FOLDERS = '/\\:*?"<>|'


@dataclass(frozen=True, kw_only=True)
class GroupOptions(TrainerOptions):
    """Options of every trainer that reads the groups of cases from a column of the case table."""

    column: str = ""
    has_column: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.column:
            where = "written after the trainer's name (nnUNetTrainerIW_centre)"
            raise InputError("column", f"be a column of cases.csv, {where}", repr(self.column))
        if not _fits_in_a_name(self.column):
            must = (
                "be a column whose name has no `__`, no `_` at its ends, no control character and "
                f"none of {' '.join(_NOT_IN_FOLDERS)} (rename it in cases.csv)"
            )
            raise InputError("column", must, repr(self.column))
        super().__post_init__()

    def suffix(self) -> str:
        """The part of the trainer's name that gives the column and the options."""
        return f"_{self.column}{super().suffix()}"


def _fits_in_a_name(column: str) -> bool:
    """Whether the name of a trainer, and with it that of a folder, can contain a column.

    nnU-Net separates trainer, plans and configuration with ``__`` in the names of its folders.
    """
    return (
        "__" not in column
        and column == column.strip("_ ")
        and column.isprintable()
        and set(column).isdisjoint(_NOT_IN_FOLDERS)
    )


@dataclass(frozen=True, kw_only=True)
class GroupDROOptions(GroupOptions, HardnessOptions):
    """Options of `nnUNetTrainerGroupDRO_<column>`.

    ``nu`` is in 1/loss units, and ``adjustment``, the C of the size adjustment, in loss units.

    Source: Sagawa et al. 2020.
    """

    nu: float = 0.01
    adjustment: float = 0.0

    def rule(
        self, groups: Sequence[str] = (), rarity: NDArray[np.float64] | None = None
    ) -> sampling.Rule:
        """Group weights that follow the losses of the groups."""
        return sampling.GroupDRO(
            groups,
            nu=self.nu,
            adjustment=self.adjustment,
            momentum=self.momentum,
        )


@dataclass(frozen=True, kw_only=True)
class IWOptions(GroupOptions):
    """Options of `nnUNetTrainerIW_<column>`.

    With a share, the hardness and the exploration are the defaults of `DROOptions`.
    """

    as_weights: bool = False
    power: float = 1.0
    share: float | None = None

    def _without_effect(self) -> Iterator[Idle]:
        if self.as_weights:
            yield self.given_options("power", "share"), "with `asWeights`, which leaves no groups."
        yield from super()._without_effect()

    @property
    def history(self) -> History:
        """How the losses of the cases are collected."""
        if self.share is None:
            return History()
        return History(hardness=DROOptions.hardness)

    def rule(
        self, groups: Sequence[str] = (), rarity: NDArray[np.float64] | None = None
    ) -> sampling.Rule:
        """Draws by group, and within a group by hardness if there is a share.

        With ``as_weights``, the entries are weights as text, and cases are drawn by them.
        """
        if self.as_weights:
            return sampling.ByWeight([float(weight) for weight in groups])
        if self.share is None:
            return sampling.Balanced(groups, power=self.power)
        return sampling.BalancedBall(
            groups,
            power=self.power,
            share=self.share,
            exploration=DROOptions.exploration,
        )


def trainer_told_by(column: str, *, is_complete: bool = True) -> str:
    """The trainer that draws every group of a column equally often.

    It says what has to be done before: rename a column that a trainer's name cannot contain, and
    fill in a column in which a training case has no entry.

    Example:
        >>> trainer_told_by("centre")
        'nnUNetTrainerIW_centre'
        >>> trainer_told_by("slice/mm")[:65]
        'nnUNetTrainerIW_<new name> (first rename the column `slice/mm` of'
    """
    steps = []
    if not is_complete:
        steps.append(f"fill in what is missing in the column `{column}` of cases.csv")

    base = "nnUNetTrainerIW"
    name = f"{base}_{column}"
    # An option in the name of a column is read as one.
    with suppress(ValueError):
        if options_from_name(name, base=base, kind=IWOptions).column == column:
            return f"{name} (first {steps[0]})" if steps else name

    steps.append(
        f"rename the column `{column}` of cases.csv, because no trainer's name can contain it"
    )
    return f"{base}_<new name> (first {'; then '.join(steps)})"
