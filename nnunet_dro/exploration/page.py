"""The files of an exploration, among them its page, which is self-contained."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from nnunet_dro.evaluation.report.figures import StratumCases, about_distribution, distribution
from nnunet_dro.evaluation.report.formatting import column_kind, metric_title, shown
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.exploration.exploration import Exploration
from nnunet_dro.exploration.tables import exploration_findings, heading, size, tested_combinations
from nnunet_dro.exploration.words import parts_of, title
from nnunet_dro.files.json_file import json_records, json_text
from nnunet_dro.naming import NO_VALUE, group_name, name_some
from nnunet_dro.pages.document import Block, Figure, Heading, Note, Prose, Table
from nnunet_dro.pages.html import SortableColumn, SortableTable, page

#: The name of the format of summary.json; its number changes with the format.
FORMAT = "nnunet-dro exploration 1"

#: The most strata of an attribute that are named.
_MOST_STRATA = 30

#: The most dots of a row of a figure, those of the worst cases.
_MOST_DOTS = 2_000


def exploration_files(exploration: Exploration) -> dict[str, str]:
    """The files of an exploration by name.

    ``explore.csv`` has a row per combination that was tested; ``summary.json`` and ``report.html``
    stand beside it.
    """
    table = exploration.table.copy()
    table.insert(1, "metric", exploration.metric)
    summary = {
        "format": FORMAT,
        "method": exploration.method,
        "found": heading(exploration),
        "findings": exploration_findings(exploration),
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
    blocks: list[Block] = [
        Heading("What stands out", anchor="found", short="What stands out"),
        Prose(exploration_findings(exploration), kind="points"),
        *tested_combinations(exploration),
        *map(Note, exploration.notes),
    ]

    table = None
    charts = []
    if len(exploration.cases):
        table = _case_table(exploration, metric)
        charts = _charts(exploration, metric, table)
        # Without dots to choose from, the table needs no hint on them.
        if not charts:
            table = replace(table, hint="")
    if charts:
        blocks += [
            Heading("Against the rest", anchor="pictures", short="Pictures"),
            Prose(
                f"The cases of the half that was tested. {about_distribution(metric)} A label that "
                "was missed or invented and has no value is drawn at the worst value."
            ),
            Figure(charts),
        ]

    attributes = [(name, _strata(strata)) for name, strata in exploration.attributes.items()]
    blocks += [
        Heading("Attributes", anchor="attributes", short="Attributes"),
        Prose("What was combined, and the number of cases of each stratum."),
        Table.of_pairs("Attributes", attributes, kind="terms"),
    ]
    return page(
        blocks,
        _methods(exploration),
        about={
            name: dict(exploration.about[name]) for name in ("options", "evaluation", "versions")
        },
        table=table,
        kind="nnunet-dro · exploration",
        title=f"Exploration of {exploration.method}",
        heading=heading(exploration),
        lede=size(exploration),
    )


def _methods(exploration: Exploration) -> list[Block]:
    """The definitions, as sentences."""
    terms = []
    for name, text in exploration.about["definitions"].items():
        sentence = f"{text[:1].upper()}{text[1:]}."
        terms.append((name.capitalize(), sentence))
    return [
        Heading("How it was found", anchor="methods", short="How it was found"),
        Table.of_pairs("Definitions", terms, kind="terms"),
    ]


def _strata(n_cases: Mapping[str, int]) -> str:
    """The strata of an attribute with their numbers of cases."""
    named = [f"{stratum} ({n:,})" for stratum, n in n_cases.items()]
    return name_some(named, at_most=_MOST_STRATA, between="; ")


def _case_table(exploration: Exploration, metric: Metric) -> SortableTable:
    """A row per case and label that has a combination."""
    cases = exploration.cases
    columns = [SortableColumn("Case", "text", cases["case"])]
    if len(exploration.labels) > 1:
        columns.append(SortableColumn("Label", "text", cases["label"], filtered=True))

    place_of_metric = len(columns)
    columns.append(
        SortableColumn(metric_title(metric), column_kind(metric), shown(cases["value"], metric))
    )
    columns.append(SortableColumn("Half", "text", cases["half"], filtered=True))

    names = [title(row) for row in exploration.table.to_dict("records")]
    combinations = [names[n - 1] if n else NO_VALUE for n in cases["combination"].tolist()]
    columns.append(SortableColumn("Combination", "text", combinations, filtered=True))
    for attribute in exploration.attributes:
        strata = cases[f"stratum of {attribute}"]
        columns.append(SortableColumn(attribute, "text", strata, filtered=True))

    # A dot of a figure is known by its case and label.
    return SortableTable(
        tuple(columns),
        list(zip(cases["case"], cases["label"], strict=True)),
        place_of_metric,
        not metric.more_is_better,
        "Every case of the labels in the table above.",
        file="scores.csv of the evaluation",
    )


def _charts(
    exploration: Exploration, metric: Metric, table: SortableTable
) -> list[tuple[str, list[Markup]]]:
    """A figure for each combination that was confirmed.

    It has the cases of the combination against the others, of the half that was tested.
    """
    charts = []
    column = table.column(metric_title(metric))
    cases = exploration.cases
    is_tested = (cases["half"] == "tested") & cases["filled"].notna()
    for number_of_row, row in enumerate(exploration.table.to_dict("records"), start=1):
        if not row["confirmed"]:
            continue

        # Cases of the combinations above this one do not count.
        is_left = ~cases["combination"].between(1, number_of_row - 1)
        counted = cases[is_tested & is_left & (cases["label"] == row["label"])]
        drawing = distribution(
            _against_the_rest(
                counted,
                row,
                number_of_row,
                metric,
            ),
            metric,
            label=str(row["label"]),
            column=column,
            at_most=_MOST_DOTS,
        )
        caption = title(row)
        if len(exploration.labels) > 1:
            caption += f", {row['label']}"
        charts.append((caption, [drawing]))
    return charts


def _against_the_rest(
    cases: pd.DataFrame, row: Mapping[Any, Any], number_of_row: int, metric: Metric
) -> list[StratumCases]:
    """The cases of a combination, those that share one of its parts only, and the others."""
    inside = (cases["combination"] == number_of_row).to_numpy(dtype=bool)
    groups = [(title(row), inside)]

    shares_a_part = np.zeros(len(cases), dtype=bool)

    parts = parts_of(row)
    for attribute, stratum in parts:
        shares_it = (cases[f"stratum of {attribute}"] == stratum).to_numpy(dtype=bool)
        shares_a_part |= shares_it
        if len(parts) > 1:
            groups.append((f"other cases of {group_name(attribute, stratum)}", shares_it & ~inside))

    groups.append(("all others", ~shares_a_part & ~inside))

    strata = []
    for place, (name, members) in enumerate(groups):
        if members.any():
            values = np.array(shown(cases["filled"][members], metric))
            rows = cases.index[members].to_numpy(dtype=np.int64)
            strata.append(
                StratumCases.of(
                    place,
                    name,
                    values,
                    rows,
                    metric,
                )
            )

    return strata
