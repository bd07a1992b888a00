"""The files of an evidence pack: tables, model card and what a reporting guideline asks, from one evaluation."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
from jinja2 import Template

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.report.documents import evaluation_reports
from nnunet_dro.evaluation.report.formatting import estimate, metric_named, quantity, shown_statistics
from nnunet_dro.evaluation.report.gallery import GalleryEntry
from nnunet_dro.evaluation.result_files import evaluation_files
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import NO_VALUE
from nnunet_dro.pages.html import page_environment
from nnunet_dro.pages.markdown import escape


def evidence_pack(
    evaluation: Evaluation,
    gallery: Sequence[GalleryEntry] = (),
    links: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> dict[str, str]:
    """The files of an evaluation to put on record: what was measured, never that a law or a standard is met."""
    one = table_one(evaluation)
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
        "performance": performance(evaluation),
        "missed": missed(evaluation),
        "worst": evaluation.worst.to_dict("records"),
        "reports": sorted(files),
    }
    written = {name: _template(name).render(values).strip() + "\n" for name in ("README.md", "claim.md", "table1.md")}
    card = _template("model_card.md").render(values).strip()
    written["model_card.md"] = f"---\n{model_index(evaluation)}---\n\n{card}\n"
    return {**written, "table1.csv": one.to_csv(index=False), **files}


def performance(evaluation: Evaluation) -> pd.DataFrame:
    """The statistics that show of each metric, with their intervals, by label and stratum, as text."""
    rows = []
    for row in evaluation.strata.to_dict("records"):
        metric = metric_named(str(row["metric"]), evaluation.scores)
        shown: dict[str, object] = {name: row[name] for name in ("attribute", "stratum", "label", "metric", "n")}
        for name in shown_statistics(metric):
            value, *ends = (quantity(each, metric) for each in estimate(row, name))
            shown[name] = value if NO_VALUE in ends else f"{value} [{', '.join(ends)}]"
        rows.append(shown)
    # Distances have other statistics than the Dice has.
    return pd.DataFrame(rows).fillna(NO_VALUE)


def missed(evaluation: Evaluation) -> pd.DataFrame:
    """The strata with cases in which a label was missed, invented or left out of a statistic."""
    table = evaluation.strata
    names = [name for name in ("n_missed", "n_invented", "n_left_out") if name in table]
    columns = ["attribute", "stratum", "label", "metric", "n", *names]
    return table.loc[(table[names] > 0).any(axis=1), columns] if names else table.loc[[], columns]


def model_index(evaluation: Evaluation) -> str:
    """The front matter of a model card for Hugging Face. JSON is YAML, and quotes every name safely."""
    inputs = evaluation.about.get("inputs", {})
    results = []
    for (attribute, stratum), rows in evaluation.strata.groupby(["attribute", "stratum"], sort=False, observed=True):
        metrics = [
            {"type": str(row["metric"]), "name": f"{row['metric']}, {name}, {row['label']}", "value": row[name]}
            for row in rows.to_dict("records")
            for name in shown_statistics(metric_named(str(row["metric"])))
            if pd.notna(row[name])
        ]
        dataset = {"name": f"{attribute}: {stratum}", "type": "private", "args": {"n": int(rows["n"].max())}}
        if metrics:
            results.append({"task": {"type": "image-segmentation"}, "dataset": dataset, "metrics": metrics})
    lines = {
        "library_name": "nnunet-dro",
        "tags": ["medical-image-segmentation", "nnU-Net"],
        "references_sha256": inputs.get("references_sha256", ""),
        "predictions_sha256": inputs.get("predictions_sha256", ""),
        "model-index": [{"name": evaluation.method, "results": results}],
    }
    return "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in lines.items())


def _template(name: str) -> Template:
    """A template in Markdown, where names of users are escaped one by one."""
    environment = page_environment(Path(__file__).parent / "assets").overlay(autoescape=False)
    environment.filters = {**environment.filters, "table": _table, "plain": lambda text: escape(str(text))}
    return environment.get_template(f"{name}.jinja")


def _table(table: pd.DataFrame) -> str:
    """A table in markdown, whose cells cannot leave it."""
    if table.empty:
        return "None."

    def cell(value: Any) -> str:
        written = NO_VALUE if value != value else f"{value:.3g}" if isinstance(value, float) else str(value)
        return escape(written)

    rows = [[cell(value) for value in row] for row in table.itertuples(index=False)]
    head = [escape(str(column)) for column in table.columns]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


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
