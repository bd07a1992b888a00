"""The files of an evidence pack.

Tables, a model card and what a reporting guideline asks, from one evaluation.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
from jinja2 import Template
from pandas.api.types import is_numeric_dtype

from nnunet_dro import __version__
from nnunet_dro.evaluation.evaluating.result_files import evaluation_files
from nnunet_dro.evaluation.judging.verdict_files import verdict_counts
from nnunet_dro.evaluation.report.documents import evaluation_reports
from nnunet_dro.evaluation.report.findings import findings
from nnunet_dro.evaluation.report.formatting import metric_named, shown_statistics
from nnunet_dro.evaluation.report.gallery import GalleryEntry
from nnunet_dro.evaluation.report.manifest import now, with_manifest
from nnunet_dro.evaluation.report.recheck import check_evaluation
from nnunet_dro.evaluation.report.views import EvaluationView
from nnunet_dro.evaluation.report.words import say
from nnunet_dro.evaluation.scoring.failures import DEFAULT_FAILURE
from nnunet_dro.evaluation.statistics.columns import unit_of
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import count, share, written
from nnunet_dro.pages.document import Column, Table
from nnunet_dro.pages.html import page_environment
from nnunet_dro.pages.markdown import escape_markdown, markdown

#: Words in the names of columns that tell who the patients are.
_CHARACTERISTICS = {
    "demographic": {"age", "sex", "gender", "race", "ethnicity", "bmi", "weight", "height"},
    "clinical": {"diagnosis", "pathology", "disease", "stage", "grade", "subtype", "treatment"},
}


def evidence_pack(
    evaluation: Evaluation,
    gallery: Sequence[GalleryEntry] = (),
    links: Mapping[tuple[str, str], str] = MappingProxyType({}),
    *,
    records: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Everything that one evaluation says, as the contents of files to put on record.

    Nothing in it says that a requirement of a law or a standard is met: it holds what was measured.

    Args:
        evaluation: What to put on record.
        gallery: Pictures of the worst cases, for the page.
        links: Case and label to an address in the viewer, for the page.
        records: Further files, name to content: the protocol, the record of the self-check, and
            those of a comparison.

    Returns:
        The name of each file to its content, the manifest last.

    Raises:
        ValueError: If a number or a verdict is not the one that the scores give.
    """
    check_evaluation(evaluation)
    time = now()
    files = {
        **records,
        **evaluation_files(evaluation),
        **evaluation_reports(evaluation, gallery, links),
    }
    pages = pack_pages(evaluation, links, records=records, time=time)
    return with_manifest({**pages, **files}, time=time)


def pack_pages(
    evaluation: Evaluation,
    links: Mapping[tuple[str, str], str],
    *,
    records: Collection[str],
    time: str,
) -> dict[str, str]:
    """The pages of a pack beside the reports, and Table 1, name to content.

    Args:
        evaluation: As for `evidence_pack`.
        links: Likewise; that there are some is all that the pages tell of them.
        records: The names of further files, of which the pages tell some.
        time: Date and time of the pack.
    """
    cases_and_patients = table_one(evaluation)
    values = _template_values(evaluation, cases_and_patients)
    values |= {"links": links, "records": records, "time": time}

    texts = {
        name: _template(name).render(values).strip() + "\n"
        for name in ("README.md", "claim.md", "table1.md", "requirements.md")
    }
    card = _template("model_card.md").render(values).strip()
    texts["model_card.md"] = f"---\n{model_index(evaluation)}---\n\n{card}\n"
    texts["table1.csv"] = cases_and_patients.to_csv(index=False)
    return texts


def _template_values(evaluation: Evaluation, cases_and_patients: pd.DataFrame) -> dict[str, Any]:
    """What the templates say of an evaluation, by the names that they have for it."""
    options = evaluation.options
    view = EvaluationView.of(evaluation)

    n_patients = None
    if "patients" in cases_and_patients:
        n_patients = int(cases_and_patients["patients"].iloc[0])
    shares = cases_and_patients["share"].map(share)

    # Those of a report are of the first metric.
    all_findings = [*view.findings]
    for name in evaluation.metrics[1:]:
        all_findings += findings(evaluation, name)

    return {
        "evaluation": evaluation,
        "about": evaluation.about,
        "options": options,
        "inputs": evaluation.inputs,
        "count": count,
        "one": cases_and_patients.assign(share=shares),
        "n_cases": int(cases_and_patients["cases"].iloc[0]),
        "n_patients": n_patients,
        "definitions": {
            name: definition
            for name, definition in evaluation.about["definitions"].items()
            if name in (*evaluation.metrics, "lesions")
        },
        # Sections of the report are parts of a section in the pack.
        "performance": markdown(view.all_tables, level=3).strip(),
        "notes": view.notes,
        "version": __version__,
        "failure": options.failure or DEFAULT_FAILURE,
        "verdicts": evaluation.about["requirements"],
        "counts": verdict_counts(evaluation.about["requirements"]),
        "findings": all_findings,
        "failures": _failures(evaluation),
        "characteristics": _characteristics(evaluation),
    }


def _failures(evaluation: Evaluation) -> list[str]:
    """How many cases failed, and how many of all such cases may, in sentences per label."""
    strata = evaluation.strata
    failed = strata[(strata["attribute"] == ALL) & strata["n_failed"].notna()]

    return [say("failed", row=row, unit=unit_of(row)) for row in failed.to_dict("records")]


def _characteristics(evaluation: Evaluation) -> dict[str, list[str]]:
    """The columns that tell who the patients are, by what they are about, as their names say."""
    attributes = list(evaluation.stratum_of_case)
    names = dict.fromkeys((*attributes, *map(str, evaluation.case_table.columns)))

    characteristics: dict[str, list[str]] = {}
    for kind, words in _CHARACTERISTICS.items():
        columns = []
        for name in names:
            parts = re.split(r"[\W_\d]+", name.lower())
            if words.intersection(parts):
                columns.append(name if name in attributes else f"{name} (by no stratum)")
        characteristics[kind] = columns
    return characteristics


def model_index(evaluation: Evaluation) -> str:
    """The front matter of a model card, YAML: the metrics of every stratum, for Hugging Face.

    JSON is YAML, and quotes every name safely, whatever is in it.
    """
    inputs = evaluation.inputs
    entries = {
        "library_name": "nnunet-dro",
        "tags": ["medical-image-segmentation", "nnU-Net"],
        "references_sha256": inputs.get("references_sha256", ""),
        "predictions_sha256": inputs.get("predictions_sha256", ""),
        "model-index": [{"name": evaluation.method, "results": _results(evaluation)}],
    }

    lines = []
    for name, value in entries.items():
        text = json.dumps(value, ensure_ascii=False)
        lines.append(f"{name}: {text}\n")
    return "".join(lines)


def _results(evaluation: Evaluation) -> list[dict[str, Any]]:
    """The metrics of every stratum that has any, in the form of a model index."""
    results = []
    groups = evaluation.strata.groupby(["attribute", "stratum"], sort=False, observed=True)
    for (attribute, stratum), rows in groups:
        metrics: list[dict[str, Any]] = []
        for row in rows.to_dict("records"):
            metrics += _defined_statistics(row)

        if metrics:
            dataset = {
                "name": f"{attribute}: {stratum}",
                "type": "private",
                "args": {"n": int(rows["n"].max())},
            }
            results.append(
                {
                    "task": {"type": "image-segmentation"},
                    "dataset": dataset,
                    "metrics": metrics,
                }
            )
    return results


def _defined_statistics(row: Mapping[Any, Any]) -> Iterator[dict[str, Any]]:
    metric = str(row["metric"])
    for statistic in shown_statistics(metric_named(metric)):
        if pd.notna(row[statistic]):
            yield {
                "type": metric,
                "name": f"{metric}, {statistic}, {row['label']}",
                "value": row[statistic],
            }


def _template(name: str) -> Template:
    """A template in Markdown, where names of users are escaped one by one."""
    assets = Path(__file__).parent / "assets"
    environment = page_environment(assets).overlay(autoescape=False)
    environment.filters = {
        **environment.filters,
        "table": _table,
        "plain": lambda text: escape_markdown(str(text)),
    }
    return environment.get_template(f"{name}.jinja")


def _table(frame: pd.DataFrame) -> str:
    """A table in Markdown, whose cells cannot leave it."""
    columns = []
    for name in map(str, frame):
        kind = "num" if is_numeric_dtype(frame[name]) else "text"
        columns.append((Column(name, kind), partial(_entry, name)))

    table = Table.of("", columns, frame.to_dict("records"))
    return markdown([table]).strip()


def _entry(column: str, row: Mapping[str, Any]) -> str:
    value = row[column]
    return written(value, ".3g") if isinstance(value, float) else str(value)


def table_one(evaluation: Evaluation) -> pd.DataFrame:
    """Cases and patients by stratum, all cases first.

    Also how many of them have each label, and how much of it, in ml: the median and the quartiles.
    """
    scores = evaluation.scores
    all_cases = pd.Index(scores["case"].unique())
    patient_of_case = evaluation.patient_of_case
    has_volumes = scores["reference_ml"].notna().any()

    rows = []
    for attribute, stratum, cases in _members(evaluation, all_cases):
        row: dict[str, object] = {
            "attribute": attribute,
            "stratum": stratum,
            "cases": len(cases),
            "share": len(cases) / len(all_cases) if len(all_cases) else float("nan"),
        }
        if patient_of_case is not None:
            row["patients"] = patient_of_case.reindex(cases).nunique()

        inside = scores[scores["case"].isin(cases)]
        for label in evaluation.labels:
            has_label = inside["label"].astype(str) == label
            present = inside[has_label & (inside["n_reference"] > 0)]
            row[f"{label}, cases with it"] = len(present)
            if has_volumes:
                volumes = present["reference_ml"]
                row[f"{label}, median ml"] = volumes.quantile(0.5)
                row[f"{label}, p25 ml"] = volumes.quantile(0.25)
                row[f"{label}, p75 ml"] = volumes.quantile(0.75)
        rows.append(row)
    return pd.DataFrame(rows)


def _members(
    evaluation: Evaluation, cases: "pd.Index[str]"
) -> Iterator[tuple[str, str, "pd.Index[str]"]]:
    """Attribute, stratum and cases of every stratum, all cases first."""
    yield ALL, ALL, cases
    for attribute, strata in evaluation.stratum_of_case.items():
        if attribute == ALL:
            continue
        stratum_names = strata.astype(str)
        for category in strata.cat.categories:
            stratum = str(category)
            yield attribute, stratum, strata.index[stratum_names == stratum]
