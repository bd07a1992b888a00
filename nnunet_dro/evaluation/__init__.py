"""Per-case scores, strata of cases, statistics per stratum, comparisons and reports.

The commands of the same names call `evaluate` and `compare`; the other names are what those two are
made of.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nnunet_dro.evaluation.comparing.comparison import Comparison, compare
    from nnunet_dro.evaluation.comparing.options import CompareOptions
    from nnunet_dro.evaluation.evaluating.evaluation import evaluate
    from nnunet_dro.evaluation.evaluating.read_results import read_evaluation
    from nnunet_dro.evaluation.inputs.options import EvaluateOptions
    from nnunet_dro.evaluation.judging.outcomes import check_requirements
    from nnunet_dro.evaluation.judging.requirements import parse_requirement
    from nnunet_dro.evaluation.scoring.instances import Instances, parse_match
    from nnunet_dro.evaluation.scoring.label_maps import (
        LABEL_MAP_ENDINGS,
        LabelMap,
        Labels,
        read_label_map,
    )
    from nnunet_dro.evaluation.scoring.metrics import METRICS
    from nnunet_dro.evaluation.scoring.score_arrays import score_case
    from nnunet_dro.evaluation.scoring.scoring import Scoring
    from nnunet_dro.evaluation.statistics.columns import STATISTICS
    from nnunet_dro.evaluation.statistics.equity import equity
    from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
    from nnunet_dro.evaluation.statistics.stratum_statistics import summarise
    from nnunet_dro.evaluation.statistics.worst_strata import worst_strata
    from nnunet_dro.evaluation.stratifying.splits import make_splits
    from nnunet_dro.evaluation.stratifying.stratify import strata, stratify
    from nnunet_dro.files.case_table import MISSING, attributes_of, check_cases, read_cases

__all__ = [
    "LABEL_MAP_ENDINGS",
    "METRICS",
    "MISSING",
    "STATISTICS",
    "CompareOptions",
    "Comparison",
    "EvaluateOptions",
    "Evaluation",
    "Instances",
    "LabelMap",
    "Labels",
    "Scoring",
    "attributes_of",
    "check_cases",
    "check_requirements",
    "compare",
    "equity",
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

#: Module to its public names: each is imported when it is asked for, so that options load nothing
#: heavy.
_NAMES_OF = {
    "evaluation.comparing.comparison": ("Comparison", "compare"),
    "evaluation.comparing.options": ("CompareOptions",),
    "evaluation.evaluating.evaluation": ("evaluate",),
    "evaluation.statistics.evaluation_result": ("Evaluation",),
    "evaluation.judging.outcomes": ("check_requirements",),
    "evaluation.judging.requirements": ("parse_requirement",),
    "evaluation.inputs.options": ("EvaluateOptions",),
    "evaluation.evaluating.read_results": ("read_evaluation",),
    "evaluation.scoring.instances": ("Instances", "parse_match"),
    "evaluation.scoring.label_maps": ("LABEL_MAP_ENDINGS", "LabelMap", "Labels", "read_label_map"),
    "evaluation.scoring.metrics": ("METRICS",),
    "evaluation.scoring.score_arrays": ("score_case",),
    "evaluation.scoring.scoring": ("Scoring",),
    "evaluation.statistics.columns": ("STATISTICS",),
    "evaluation.statistics.equity": ("equity",),
    "evaluation.statistics.stratum_statistics": ("summarise",),
    "evaluation.statistics.worst_strata": ("worst_strata",),
    "evaluation.stratifying.splits": ("make_splits",),
    "evaluation.stratifying.stratify": ("strata", "stratify"),
    "files.case_table": ("MISSING", "attributes_of", "check_cases", "read_cases"),
}


def __getattr__(name: str) -> Any:
    for module_name, names in _NAMES_OF.items():
        if name in names:
            return getattr(import_module(f"nnunet_dro.{module_name}"), name)

    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
