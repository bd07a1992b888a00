"""The files of an exploration: the table, a summary, and the page, which is one self-contained file."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from nnunet_dro.evaluation.report.figures import StratumCases, distribution
from nnunet_dro.evaluation.report.formatting import metric_title, shown
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.exploration.exploration import Exploration
from nnunet_dro.exploration.words import combinations_table, findings, heading, parts_of, size, title
from nnunet_dro.files.json_file import json_records, json_text
from nnunet_dro.naming import NO_VALUE
from nnunet_dro.pages.document import Block, Figure, Heading, Note, Prose, Table
from nnunet_dro.pages.html import page
from nnunet_dro.pages.sortable_table import Column, SortableTable

#: The most strata of an attribute that are named.
_MOST_STRATA = 30

#: The most dots of a row of a figure, those of the worst cases.
_MOST_DOTS = 2_000

#: The name of the format of summary.json; its number changes with the format.
FORMAT = "nnunet-dro exploration 1"


def exploration_files(exploration: Exploration) -> dict[str, str]:
    """``explore.csv`` with a row per combination that was tested, ``summary.json`` and ``report.html``."""
    table = exploration.table.copy()
    table.insert(1, "metric", exploration.metric)
    summary = {
        "format": FORMAT,
        "method": exploration.method,
        "found": heading(exploration),
        "findings": findings(exploration),
        "n_combinations": exploration.n_combinations,
        "n_cases": exploration.n_cases,
        "n_patients": exploration.n_patients,
        "n_searched": exploration.n_searched,
        "power": asdict(exploration.power),
        "attributes": {name: dict(strata) for name, strata in exploration.attributes.items()},
        **exploration.about,
        "notes": list(exploration.notes),
        "combinations": json_records(table),
    }
    return {
        "explore.csv": table.to_csv(index=False, float_format="%.10g", lineterminator="\n"),
        "summary.json": json_text(summary),
        "report.html": exploration_html(exploration),
    }


def exploration_html(exploration: Exploration) -> str:
    """The page, in which all names are escaped."""
    metric = exploration.known_metric
    table = _case_table(exploration, metric) if len(exploration.cases) else None
    charts = [] if table is None else _charts(exploration, metric, table)
    blocks: list[Block] = [
        Heading("What stands out", anchor="found", short="What stands out"),
        Prose(findings(exploration), kind="points"),
        *([combinations_table(exploration)] if len(exploration.table) else []),
        *map(Note, exploration.notes),
    ]
    if charts:
        blocks.append(Heading("Against the rest", anchor="pictures", short="Pictures"))
        about = (
            "The cases of the half that was tested. A dot is a case; the box spans the middle half, the heavy line is"
        )
        missed = "A label that was missed or invented and has no value is drawn at the worst value."
        blocks.append(Prose(f"{about} the median, the dotted one {metric.tail.upper()}. {missed}"))
        blocks.append(Figure(charts))
    attributes = [(name, _strata(strata)) for name, strata in exploration.attributes.items()]
    blocks += [
        Heading("Attributes", anchor="attributes", short="Attributes"),
        Prose("What was combined, and the number of cases of each stratum."),
        Table.of_pairs("Attributes", attributes, kind="terms"),
    ]
    definitions = exploration.about["definitions"].items()
    terms = [(name.capitalize(), f"{text[:1].upper()}{text[1:]}.") for name, text in definitions]
    cases = {
        "about": "Every case of the labels in the table above.",
        "hint": "A dot in a figure opens its case here." if charts else "",
        "file": "scores.csv of the evaluation",
    }
    return page(
        blocks,
        [
            Heading("How it was found", anchor="methods", short="How it was found"),
            Table.of_pairs("Definitions", terms, kind="terms"),
        ],
        about={name: dict(exploration.about[name]) for name in ("options", "evaluation", "versions")},
        cases=None if table is None else cases,
        payload={"columns": []} if table is None else table.payload({}),
        kind="nnunet-dro · exploration",
        title=f"Exploration of {exploration.method}",
        heading=heading(exploration),
        lede=size(exploration),
    )


def _strata(n_cases: Mapping[str, int]) -> str:
    named = "; ".join(f"{stratum} ({n:,})" for stratum, n in list(n_cases.items())[:_MOST_STRATA])
    return named + (f" and {len(n_cases) - _MOST_STRATA} more" if len(n_cases) > _MOST_STRATA else "")


def _case_table(exploration: Exploration, metric: Metric) -> SortableTable:
    """A row per case and label that has a combination."""
    cases = exploration.cases
    names = [title(row) for row in exploration.table.to_dict("records")]
    columns = [Column("Case", "text", cases["case"].tolist())]
    if len(exploration.labels) > 1:
        columns.append(Column("Label", "text", cases["label"].tolist(), filtered=True))
    columns.append(Column(metric_title(metric), "number", shown(cases["value"], metric)))
    columns.append(Column("Half", "text", cases["half"].tolist(), filtered=True))
    combination = [names[n - 1] if n else NO_VALUE for n in cases["combination"].tolist()]
    columns.append(Column("Combination", "text", combination, filtered=True))
    columns += [
        Column(attribute, "text", cases[f"stratum of {attribute}"].tolist(), filtered=True)
        for attribute in exploration.attributes
    ]
    by_value = 2 if len(exploration.labels) > 1 else 1
    keys = list(zip(cases["case"], cases["label"], strict=True))
    return SortableTable(tuple(columns), keys, by_value, descending=not metric.more_is_better)


def _charts(exploration: Exploration, metric: Metric, table: SortableTable) -> list[tuple[str, list[Markup]]]:
    """A figure for each combination that was confirmed: its cases against the others, of the half that was tested."""
    found = []
    column = table.column(metric_title(metric))
    for number_of_row, row in enumerate(exploration.table.to_dict("records"), start=1):
        if not row["confirmed"]:
            continue
        cases = exploration.cases
        cases = cases[(cases["label"] == row["label"]) & (cases["half"] == "tested") & cases["filled"].notna()]
        cases = cases[~cases["combination"].between(1, number_of_row - 1)]
        strata = _against_the_rest(cases, row, number_of_row, metric)
        drawn = distribution(strata, metric, label=str(row["label"]), column=column, at_most=_MOST_DOTS)
        caption = title(row) + (f", {row['label']}" if len(exploration.labels) > 1 else "")
        found.append((caption, [drawn]))
    return found


def _against_the_rest(
    cases: pd.DataFrame, row: Mapping[Any, Any], number_of_row: int, metric: Metric
) -> list[StratumCases]:
    """The cases of a combination, those that share one of its parts only, and the others."""
    parts = parts_of(row)
    has = {part: (cases[f"stratum of {part[0]}"] == part[1]).to_numpy(dtype=bool) for part in parts}
    inside = (cases["combination"] == number_of_row).to_numpy(dtype=bool)
    groups = [(title(row), inside)]
    if len(parts) > 1:
        groups += [(f"other cases of {'='.join(part)}", has[part] & ~inside) for part in parts]
    any_part = np.logical_or.reduce(list(has.values()))
    groups.append(("all others", ~any_part & ~inside))
    found = []
    for place, (name, where) in enumerate(groups):
        if where.any():
            values, rows = np.array(shown(cases["filled"][where], metric)), cases.index[where].to_numpy(dtype=np.int64)
            found.append(StratumCases.of(place, name, values, rows, metric))
    return found
