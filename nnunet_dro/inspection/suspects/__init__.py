"""Find training cases with possible label errors.

They are ranked by the logs that a training wrote about its cases, or by their validation Dice.
"""

from nnunet_dro.files.case_log import read_logs
from nnunet_dro.inspection.suspects.page import suspects_files, suspects_table
from nnunet_dro.inspection.suspects.ranking import rank_cases
from nnunet_dro.inspection.suspects.search import Suspects, find_suspects
from nnunet_dro.inspection.suspects.writing import write_suspects

__all__ = [
    "Suspects",
    "find_suspects",
    "rank_cases",
    "read_logs",
    "suspects_files",
    "suspects_table",
    "write_suspects",
]
