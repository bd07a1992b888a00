"""The HTML pages of an evaluation and of a comparison."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.report.comparison_page import comparison_content
from nnunet_dro.evaluation.report.evaluation_page import evaluation_content
from nnunet_dro.evaluation.report.formatting import metric_named, stratum_title
from nnunet_dro.evaluation.report.strata_tables import SHADES, SPREAD_SHADES, TYPICAL, Row, Table
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.pages.page import page_assets, page_environment

if TYPE_CHECKING:
    from nnunet_dro.evaluation.comparing.comparison import Comparison
    from nnunet_dro.evaluation.report.gallery import GalleryEntry

_ASSETS = Path(__file__).parent / "assets"


def evaluation_html(
    evaluation: Evaluation,
    gallery: "Sequence[GalleryEntry]" = (),
    links: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> str:
    """The page of an evaluation.

    Args:
        evaluation: The evaluation.
        gallery: Pictures of the worst cases, from `gallery_entries`.
        links: Case and label to the address that shows them in the viewer.

    Returns:
        HTML, the same for the same input. All names from files are escaped.

    Raises:
        ValueError: If the evaluation has an unknown metric.
    """
    content = evaluation_content(evaluation, gallery, links)
    metrics = [metric_named(name, evaluation.scores) for name in evaluation.metrics]
    return _page("evaluation.html", content, metrics, evaluation.about)


def comparison_html(comparison: "Comparison") -> str:
    """The page of a comparison.

    Args:
        comparison: The comparison.

    Returns:
        HTML, the same for the same input. All names from files are escaped.

    Raises:
        ValueError: If the comparison has an unknown metric.
    """
    metrics = [metric_named(str(name), comparison.scores) for name in comparison.table["metric"].unique()]
    return _page("comparison.html", comparison_content(comparison), metrics, comparison.about)


def _page(template: str, content: Mapping[str, Any], metrics: Sequence[Metric], about: Mapping[str, Any]) -> str:
    environment = page_environment(_ASSETS)
    definitions = about["definitions"] if isinstance(about.get("definitions"), Mapping) else {}
    shared = {
        **page_assets(),
        "metrics": [(metric, definitions.get(metric.name, metric.definition)) for metric in metrics],
        "statistics": [(statistic.title, statistic.definition) for statistic in STATISTICS.values()],
        "definitions": [(name, text) for name, text in definitions.items() if name not in METRICS],
        "typical": TYPICAL,
        "about": _readable(about),
        "titles": {name: statistic.title for name, statistic in STATISTICS.items()},
        "stratum_title": stratum_title,
        "by_label": _by_label,
        "shade_steps": list(pairwise(f"{100 - step:g}" for step in (0, *SHADES, 100))),
        "spread_steps": _spread_steps(),
    }
    return environment.get_template(template).render({**shared, **content})


def _readable(about: Mapping[str, Any]) -> dict[str, Any]:
    """How the run was made, without what the page shows elsewhere and without the paths of all files."""
    left_out = ("definitions", "requirements", "files", "files_sha256")
    return {
        key: _readable(value) if isinstance(value, Mapping) else value
        for key, value in about.items()
        if key not in left_out
    }


def _by_label(table: Table) -> list[tuple[str, list[Row]]]:
    """Rows per label, so that strata stand side by side."""
    groups: dict[str, list[Row]] = {}
    for row in table.rows:
        groups.setdefault(row.label, []).append(row)
    return list(groups.items())


def _spread_steps() -> list[str]:
    ends = [f"{step:g}" for step in SPREAD_SHADES]
    between = [f"{low}–{high}" for low, high in pairwise(ends)]
    return [f"up to {ends[0]}", *between, f"above {ends[-1]}"]
