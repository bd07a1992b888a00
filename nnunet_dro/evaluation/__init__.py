"""Per-case scores, strata of cases, and statistics per stratum."""

from nnunet_dro.evaluation.cases import MISSING, attributes_of, check_cases, read_cases
from nnunet_dro.evaluation.label_maps import LABEL_MAP_ENDINGS, read_label_map
from nnunet_dro.evaluation.labels import Labels
from nnunet_dro.evaluation.scores import score_folders
from nnunet_dro.evaluation.scoring import score_case
from nnunet_dro.evaluation.statistics import STATISTICS, summarise
from nnunet_dro.evaluation.strata import strata

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
