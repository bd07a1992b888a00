"""The command `nnunet-dro splits`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nnunet_dro.commands.shared import CaseTable, argument, option, show_with_page, takes


@dataclass(frozen=True, kw_only=True)
class _Options:
    dataset: Annotated[
        str, argument("Folder, name or number of a raw dataset.", metavar="RAW_DATASET")
    ]
    cases: CaseTable = None
    stratify: Annotated[
        str | None, option("Column whose strata are spread evenly over the folds.")
    ] = None
    group: Annotated[
        str | None, option("Column that names the patient; no patient is in two folds.")
    ] = None
    leave_out: Annotated[
        str | None, option("Column that names the centre; every centre becomes a fold.")
    ] = None
    folds: Annotated[int, option("Number of folds; ignored with --leave-out.")] = 5
    output: Annotated[
        Path | None, option("File to write; default: splits_final.json.", "--output", "-o")
    ] = None
    force: Annotated[bool, option("Replace an existing file.", "--force")] = False


@takes(_Options)
def splits(options: _Options) -> None:
    """Write nnU-Net's splits_final.json: stratified, patient-safe or leave-one-centre-out."""
    from nnunet_dro.evaluation.report.command_tables import splits_table
    from nnunet_dro.evaluation.stratifying.splits import split_dataset

    made = split_dataset(**vars(options))
    show_with_page(splits_table(made.table, made.notes), made.path)
