"""Base of the trainers that know the group of every case."""

from collections.abc import Sequence
from typing import ClassVar

from nnunet_dro.sampling import Rule
from nnunet_dro.trainers.data.case_groups import groups_of
from nnunet_dro.trainers.named import NamedTrainer
from nnunet_dro.trainers.options import GroupOptions


class GroupedTrainer(NamedTrainer):
    """A trainer whose name contains a column of the case table."""

    options: ClassVar[GroupOptions] = GroupOptions(column="group")  # each name has its own column
    options_class = GroupOptions

    def groups(self, cases: Sequence[str]) -> list[str]:
        """Group of each case; raises the errors of `groups_of`."""
        return groups_of(self, cases, column=self.options.column)

    def _make_rule(self, cases: Sequence[str]) -> Rule:
        return self.options.rule(self.groups(cases))

    def _check_before_training(self) -> None:
        self.groups([str(case) for case in self.do_split()[0]])
