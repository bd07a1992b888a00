"""Per-case scores, strata of cases, statistics per stratum, comparisons and reports.

The commands of the same names call `evaluate` and `compare`; the other names are what those two are made of.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nnunet_dro.evaluation.comparing.comparison import Comparison, compare
    from nnunet_dro.evaluation.evaluation import evaluate
    from nnunet_dro.evaluation.evaluation_result import Evaluation
    from nnunet_dro.evaluation.judging.outcomes import check_requirements
    from nnunet_dro.evaluation.judging.requirements import parse_requirement
    from nnunet_dro.evaluation.result_files import read_evaluation
    from nnunet_dro.evaluation.scoring.instances import Instances, parse_match
    from nnunet_dro.evaluation.scoring.label_maps import LABEL_MAP_ENDINGS, LabelMap, read_label_map
    from nnunet_dro.evaluation.scoring.labels import Labels
    from nnunet_dro.evaluation.scoring.metrics import METRICS
    from nnunet_dro.evaluation.scoring.score_arrays import Scoring, score_case
    from nnunet_dro.evaluation.statistics.columns import STATISTICS
    from nnunet_dro.evaluation.statistics.stratum_statistics import summarise, worst_strata
    from nnunet_dro.evaluation.stratifying.splits import make_splits
    from nnunet_dro.evaluation.stratifying.stratify import strata, stratify
    from nnunet_dro.files.case_table import MISSING, attributes_of, check_cases, read_cases

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

#: Public name to its module in the package: each is imported when it is asked for, so that options load nothing heavy.
_HOME = {
    "Comparison": "evaluation.comparing.comparison",
    "Evaluation": "evaluation.evaluation_result",
    "Instances": "evaluation.scoring.instances",
    "LABEL_MAP_ENDINGS": "evaluation.scoring.label_maps",
    "LabelMap": "evaluation.scoring.label_maps",
    "Labels": "evaluation.scoring.labels",
    "METRICS": "evaluation.scoring.metrics",
    "MISSING": "files.case_table",
    "STATISTICS": "evaluation.statistics.columns",
    "Scoring": "evaluation.scoring.score_arrays",
    "attributes_of": "files.case_table",
    "check_cases": "files.case_table",
    "check_requirements": "evaluation.judging.outcomes",
    "compare": "evaluation.comparing.comparison",
    "evaluate": "evaluation.evaluation",
    "make_splits": "evaluation.stratifying.splits",
    "parse_match": "evaluation.scoring.instances",
    "parse_requirement": "evaluation.judging.requirements",
    "read_cases": "files.case_table",
    "read_evaluation": "evaluation.result_files",
    "read_label_map": "evaluation.scoring.label_maps",
    "score_case": "evaluation.scoring.score_arrays",
    "strata": "evaluation.stratifying.stratify",
    "stratify": "evaluation.stratifying.stratify",
    "summarise": "evaluation.statistics.stratum_statistics",
    "worst_strata": "evaluation.statistics.stratum_statistics",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"nnunet_dro.{_HOME[name]}"), name)
