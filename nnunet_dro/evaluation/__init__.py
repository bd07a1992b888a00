"""Per-case scores, strata of cases, statistics per stratum, comparisons and reports.

The commands of the same names call `evaluate` and `compare`; the other names are what those two are made of.
"""

from nnunet_dro.case_table import MISSING, attributes_of, check_cases, read_cases
from nnunet_dro.evaluation.comparison import Comparison, compare
from nnunet_dro.evaluation.evaluation import evaluate
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.instances import Instances, parse_match
from nnunet_dro.evaluation.label_maps import LABEL_MAP_ENDINGS, LabelMap, read_label_map
from nnunet_dro.evaluation.labels import Labels
from nnunet_dro.evaluation.metrics import METRICS
from nnunet_dro.evaluation.outcomes import check_requirements
from nnunet_dro.evaluation.requirements import parse_requirement
from nnunet_dro.evaluation.result_files import read_evaluation
from nnunet_dro.evaluation.score_arrays import Scoring, score_case
from nnunet_dro.evaluation.splits import make_splits
from nnunet_dro.evaluation.statistics import STATISTICS
from nnunet_dro.evaluation.strata import strata, stratify
from nnunet_dro.evaluation.stratum_statistics import summarise, worst_strata

__all__ = [
    "LABEL_MAP_ENDINGS",
    "METRICS",
    "MISSING",
    "STATISTICS",
    "Comparison",
    "Evaluation",
    "Instances",
    "LabelMap",
    "Labels",
    "Scoring",
    "attributes_of",
    "check_cases",
    "check_requirements",
    "compare",
    "evaluate",
    "make_splits",
    "parse_match",
    "parse_requirement",
    "read_cases",
    "read_evaluation",
    "read_label_map",
    "score_case",
    "strata",
    "stratify",
    "summarise",
    "worst_strata",
]
