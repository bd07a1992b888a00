"""Options of the trainers that know the group of every case."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnunet_dro.sampling import Balanced, GroupDRO, Rule
from nnunet_dro.trainers.options.settings import Check, HardnessOptions, TrainerOptions

#: What one file system or another does not take in the name of a folder; nnU-Net names folders after trainers.
_NOT_IN_FOLDERS = '/\\:*?"<>|'


@dataclass(frozen=True, kw_only=True)
class GroupOptions(TrainerOptions):
    """Options of every trainer that knows the group of every case.

    Attributes:
        column: Column of the case table that holds the groups.
    """

    column: str = ""

    def _checks(self) -> list[Check]:
        column = self.column
        rule = "a column of cases.csv, written after the trainer's name (nnUNetTrainerIW_centre)"
        plain = (
            "a column whose name has no `__`, no `_` at its ends, no control character and none of "
            f"{' '.join(_NOT_IN_FOLDERS)} (rename it in cases.csv)"
        )
        is_plain = "__" not in column and column == column.strip("_ ") and not set(column) & set(_NOT_IN_FOLDERS)
        return [
            (bool(column), "column", rule),
            (is_plain and column.isprintable(), "column", plain),
            *super()._checks(),
        ]

    def suffix(self) -> str:
        """The part of the trainer's name that gives the column and the options."""
        return f"_{self.column}{super().suffix()}"


@dataclass(frozen=True, kw_only=True)
class GroupDROOptions(GroupOptions, HardnessOptions):
    """Options of `nnUNetTrainerGroupDRO_<column>`.

    Attributes:
        nu: Step size of the group weights per iteration, 1/loss units, > 0.
        adjustment: C of the size adjustment C / sqrt(n_g), loss units, >= 0.

    Source: Sagawa et al. 2020.
    """

    nu: float = 0.01
    adjustment: float = 0.0

    def _checks(self) -> list[Check]:
        return [
            (bool(np.isfinite(self.nu) and self.nu > 0), "nu", "a number > 0"),
            (bool(np.isfinite(self.adjustment) and self.adjustment >= 0), "adjustment", "a number >= 0"),
            *super()._checks(),
        ]

    def rule(self, groups: Sequence[str] = ()) -> Rule:
        """Group weights that follow the losses of the groups."""
        return GroupDRO(groups, nu=self.nu, adjustment=self.adjustment, momentum=self.momentum)


@dataclass(frozen=True, kw_only=True)
class IWOptions(GroupOptions):
    """Options of `nnUNetTrainerIW_<column>`."""

    def rule(self, groups: Sequence[str] = ()) -> Rule:
        """Draws every group equally often."""
        return Balanced(groups)
