"""Per-case scores, strata of cases, and statistics per stratum."""

from nnunet_dro.evaluation.scores import LABEL_MAP_ENDINGS, Labels, read_label_map, score_case, score_folders
from nnunet_dro.evaluation.statistics import STATISTICS, summarise
from nnunet_dro.evaluation.strata import MISSING, attributes_of, check_cases, read_cases, strata

__all__ = [
    "LABEL_MAP_ENDINGS",
    "MISSING",
    "STATISTICS",
    "Labels",
    "attributes_of",
    "check_cases",
    "read_cases",
    "read_label_map",
    "score_case",
    "score_folders",
    "strata",
    "summarise",
]
