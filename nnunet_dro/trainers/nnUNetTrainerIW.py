"""`nnUNetv2_train DATASET CONFIGURATION FOLD -tr nnUNetTrainerIW_<column>`."""

from typing import Any, ClassVar

from nnunet_dro.naming import name_some
from nnunet_dro.trainers.named import GroupedTrainer
from nnunet_dro.trainers.options import IWOptions


class nnUNetTrainerIW(GroupedTrainer):  # noqa: N801
    """nnU-Net that sees every group of a column of cases.csv equally often.

    `nnUNetTrainerIW_centre`.

    Source: static importance weighting (balanced risk), as in Sagawa et al. 2020 and Zhai et al.
    2023, section 3.
    """

    options: ClassVar[IWOptions] = IWOptions(column="group")

    def get_tr_and_val_datasets(self) -> tuple[Any, Any]:
        """nnU-Net's datasets; that of the training without the cases of weight 0, which must never be drawn."""
        training, validation = super().get_tr_and_val_datasets()
        if self.options.as_weights:
            cases = [str(case) for case in training.identifiers]
            drawn = [
                case
                for case, weight in zip(cases, self.groups(cases), strict=True)
                if float(weight) > 0
            ]
            if never := sorted({*cases} - {*drawn}):
                self.print_to_log_file(
                    f"Never drawn: {len(never)} of {len(cases)} training cases, whose weight in the column "
                    f"`{self.options.column}` is 0: {name_some(never)}."
                )
            training.identifiers = drawn
        return training, validation
