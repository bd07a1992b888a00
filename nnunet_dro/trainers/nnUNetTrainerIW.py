"""`nnUNetv2_train DATASET CONFIGURATION FOLD -tr nnUNetTrainerIW_<column>`."""

from typing import Any, ClassVar

from nnunet_dro.naming import name_some
from nnunet_dro.trainers.named import GroupedTrainer
from nnunet_dro.trainers.options import IWOptions


class nnUNetTrainerIW(GroupedTrainer):  # noqa: N801
    """nnU-Net that sees every group of a column of cases.csv equally often.

    The name contains the column: `nnUNetTrainerIW_centre`.

    Source: static importance weighting (balanced risk), as in Sagawa et al. 2020 and Zhai et al.
    2023, section 3.
    """

    options: ClassVar[IWOptions] = IWOptions(column="group")

    def get_tr_and_val_datasets(self) -> tuple[Any, Any]:
        """nnU-Net's datasets; the one for training is without the cases of weight 0."""
        training, validation = super().get_tr_and_val_datasets()
        if not self.options.as_weights:
            return training, validation

        cases = [str(case) for case in training.identifiers]
        weights = zip(cases, self.groups(cases), strict=True)
        drawn = [case for case, weight in weights if float(weight) > 0]
        training.identifiers = drawn

        never = sorted({*cases} - {*drawn})
        if never:
            self.print_to_log_file(
                f"Never drawn: {len(never)} of {len(cases)} training cases, whose weight in the "
                f"column `{self.options.column}` is 0: {name_some(never)}."
            )
        return training, validation
