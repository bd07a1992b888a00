"""The files of an evidence pack.

Tables, model card and what a reporting guideline asks, from one evaluation.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
from jinja2 import Template
from pandas.api.types import is_numeric_dtype

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.report.documents import evaluation_reports
from nnunet_dro.evaluation.report.formatting import metric_named, shown_statistics
from nnunet_dro.evaluation.report.gallery import GalleryEntry
from nnunet_dro.evaluation.report.strata_tables import strata_tables
from nnunet_dro.evaluation.result_files import evaluation_files
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import written
from nnunet_dro.pages.document import Column, Table
from nnunet_dro.pages.html import page_environment
from nnunet_dro.pages.markdown import escape, markdown


def evidence_pack(
    evaluation: Evaluation,
    gallery: Sequence[GalleryEntry] = (),
    links: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> dict[str, str]:
    """The files of an evaluation to put on record.

    What was measured, never that a law or a standard is met.
    """
    one = table_one(evaluation)
    tables = strata_tables(evaluation.strata, evaluation.scores, evaluation.options.failure)
    files = evaluation_files(evaluation) | evaluation_reports(evaluation, gallery, links)
    values = {
        "evaluation": evaluation,
        "links": links,
        "about": evaluation.about,
        "options": evaluation.options,
        "inputs": evaluation.about.get("inputs", {}),
        "one": one.assign(share=[f"{100 * share:.0f} %" for share in one["share"]]),
        "n_cases": int(one["cases"].iloc[0]),
        "n_patients": int(one["patients"].iloc[0]) if "patients" in one else None,
        "metrics": {name: METRICS[name] for name in evaluation.metrics},
        "performance": re.sub("(?m)^## ", "### ", markdown([table for _, table in tables]).strip()),
        "worst": evaluation.worst.to_dict("records"),
        "reports": sorted(files),
    }
    texts = {
        name: _template(name).render(values).strip() + "\n"
        for name in ("README.md", "claim.md", "table1.md")
    }
    card = _template("model_card.md").render(values).strip()
    texts["model_card.md"] = f"---\n{model_index(evaluation)}---\n\n{card}\n"
    return {**texts, "table1.csv": one.to_csv(index=False), **files}


def model_index(evaluation: Evaluation) -> str:
    """The front matter of a model card for Hugging Face.

    JSON is YAML, and quotes every name safely.
    """
    inputs = evaluation.about.get("inputs", {})
    results = []
    for (attribute, stratum), rows in evaluation.strata.groupby(
        ["attribute", "stratum"], sort=False, observed=True
    ):
        metrics = [
            {
                "type": str(row["metric"]),
                "name": f"{row['metric']}, {name}, {row['label']}",
                "value": row[name],
            }
            for row in rows.to_dict("records")
            for name in shown_statistics(metric_named(str(row["metric"])))
            if pd.notna(row[name])
        ]
        dataset = {
            "name": f"{attribute}: {stratum}",
            "type": "private",
            "args": {"n": int(rows["n"].max())},
        }
        if metrics:
            results.append(
                {"task": {"type": "image-segmentation"}, "dataset": dataset, "metrics": metrics}
            )
    lines = {
        "library_name": "nnunet-dro",
        "tags": ["medical-image-segmentation", "nnU-Net"],
        "references_sha256": inputs.get("references_sha256", ""),
        "predictions_sha256": inputs.get("predictions_sha256", ""),
        "model-index": [{"name": evaluation.method, "results": results}],
    }
    return "".join(
        f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in lines.items()
    )


def _template(name: str) -> Template:
    """A template in Markdown, where names of users are escaped one by one."""
    environment = page_environment(Path(__file__).parent / "assets").overlay(autoescape=False)
    environment.filters = {
        **environment.filters,
        "table": _table,
        "plain": lambda text: escape(str(text)),
    }
    return environment.get_template(f"{name}.jinja")


def _table(frame: pd.DataFrame) -> str:
    """A table in Markdown, whose cells cannot leave it."""

    def entry(name: str) -> Callable[[Mapping[str, Any]], str]:
        return lambda row: (
            written(row[name], ".3g") if isinstance(row[name], float) else str(row[name])
        )

    kinds = {name: "num" if is_numeric_dtype(frame[name]) else "text" for name in frame}
    columns = [(Column(str(name), kind), entry(str(name))) for name, kind in kinds.items()]
    return markdown([Table.of("", columns, frame.to_dict("records"))]).strip()


def table_one(evaluation: Evaluation) -> pd.DataFrame:
    """Cases and patients by stratum, all cases first, and how many have each label and how much of it, in ml."""
    scores = evaluation.scores
    cases = pd.Index(scores["case"].unique())
    patient_of_case = evaluation.patient_of_case
    groups: list[tuple[str, str, pd.Index[str]]] = [(ALL, ALL, cases)]
    for attribute, strata in evaluation.stratum_of_case.items():
        names = [str(name) for name in strata.cat.categories] if attribute != ALL else []
        groups += [(attribute, name, strata.index[strata.astype(str) == name]) for name in names]
    rows = []
    for attribute, stratum, members in groups:
        row: dict[str, object] = {"attribute": attribute, "stratum": stratum, "cases": len(members)}
        row["share"] = len(members) / len(cases) if len(cases) else float("nan")
        if patient_of_case is not None:
            row["patients"] = patient_of_case.reindex(members).nunique()
        here = scores[scores["case"].isin(members)]
        for label in evaluation.labels:
            present = here[(here["label"].astype(str) == label) & (here["n_reference"] > 0)]
            row[f"{label}, cases with it"] = len(present)
            if scores["reference_ml"].notna().any():
                quarters = present["reference_ml"].quantile([0.25, 0.5, 0.75]).tolist()
                row[f"{label}, median ml"] = quarters[1]
                row[f"{label}, p25 ml"], row[f"{label}, p75 ml"] = quarters[0], quarters[2]
        rows.append(row)
    return pd.DataFrame(rows)
