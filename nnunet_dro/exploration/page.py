"""What readers are told of an exploration.

Its files, the page, which is self-contained, and the terminal's table.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from rich.console import RenderableType

from nnunet_dro.evaluation.report.figures import StratumCases, about_distribution, distribution
from nnunet_dro.evaluation.report.formatting import (
    metric_title,
    number,
    p_value,
    quantity,
    shown,
    unit_sign,
)
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.exploration.exploration import Exploration
from nnunet_dro.files.json_file import json_records, json_text
from nnunet_dro.naming import NO_VALUE, count, share
from nnunet_dro.pages.document import Block, Cell, Column, Figure, Heading, Note, Prose, Table
from nnunet_dro.pages.html import SortableColumn, SortableTable, page
from nnunet_dro.pages.terminal import printed

_MOST_STRATA = 30  # The most strata of an attribute that are named.
_MOST_DOTS = 2_000  # The most dots of a row of a figure, those of the worst cases.
FORMAT = "nnunet-dro exploration 1"  # The name of the format of summary.json; its number changes with the format.


def exploration_files(exploration: Exploration) -> dict[str, str]:
    """``explore.csv`` with a row per combination that was tested, ``summary.json`` and ``report.html``."""
    table = exploration.table.copy()
    table.insert(1, "metric", exploration.metric)
    summary = {
        "format": FORMAT,
        "method": exploration.method,
        "found": heading(exploration),
        "findings": findings(exploration),
        **{
            name: getattr(exploration, name)
            for name in ("n_combinations", "n_cases", "n_patients", "n_searched")
        },
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
        about = f"The cases of the half that was tested. {about_distribution(metric)} A label that was missed or"
        about += " invented and has no value is drawn at the worst value."
        blocks += [
            Heading("Against the rest", anchor="pictures", short="Pictures"),
            Prose(about),
            Figure(charts),
        ]
    attributes = [(name, _strata(strata)) for name, strata in exploration.attributes.items()]
    blocks += [
        Heading("Attributes", anchor="attributes", short="Attributes"),
        Prose("What was combined, and the number of cases of each stratum."),
        Table.of_pairs("Attributes", attributes, kind="terms"),
    ]
    definitions = exploration.about["definitions"].items()
    terms = [(name.capitalize(), f"{text[:1].upper()}{text[1:]}.") for name, text in definitions]
    return page(
        blocks,
        [
            Heading("How it was found", anchor="methods", short="How it was found"),
            Table.of_pairs("Definitions", terms, kind="terms"),
        ],
        about={
            name: dict(exploration.about[name]) for name in ("options", "evaluation", "versions")
        },
        table=table if charts or table is None else replace(table, hint=""),
        kind="nnunet-dro · exploration",
        title=f"Exploration of {exploration.method}",
        heading=heading(exploration),
        lede=size(exploration),
    )


def _strata(n_cases: Mapping[str, int]) -> str:
    named = "; ".join(f"{stratum} ({n:,})" for stratum, n in list(n_cases.items())[:_MOST_STRATA])
    return named + (
        f" and {len(n_cases) - _MOST_STRATA} more" if len(n_cases) > _MOST_STRATA else ""
    )


def _case_table(exploration: Exploration, metric: Metric) -> SortableTable:
    """A row per case and label that has a combination."""
    cases = exploration.cases
    names = [title(row) for row in exploration.table.to_dict("records")]
    columns = [SortableColumn("Case", "text", cases["case"])]
    if len(exploration.labels) > 1:
        columns.append(SortableColumn("Label", "text", cases["label"], filtered=True))
    columns.append(SortableColumn(metric_title(metric), "number", shown(cases["value"], metric)))
    columns.append(SortableColumn("Half", "text", cases["half"], filtered=True))
    combination = [names[n - 1] if n else NO_VALUE for n in cases["combination"].tolist()]
    columns.append(SortableColumn("Combination", "text", combination, filtered=True))
    strata = {name: cases[f"stratum of {name}"] for name in exploration.attributes}
    columns += [
        SortableColumn(name, "text", of_case, filtered=True) for name, of_case in strata.items()
    ]
    by_value = 2 if len(exploration.labels) > 1 else 1
    keys = list(zip(cases["case"], cases["label"], strict=True))
    about = "Every case of the labels in the table above."
    file = "scores.csv of the evaluation"
    return SortableTable(
        tuple(columns), keys, by_value, not metric.more_is_better, about, file=file
    )


def _charts(
    exploration: Exploration, metric: Metric, table: SortableTable
) -> list[tuple[str, list[Markup]]]:
    """A figure for each combination that was confirmed.

    Its cases against the others, of the half that was tested.
    """
    found = []
    column = table.column(metric_title(metric))
    for number_of_row, row in enumerate(exploration.table.to_dict("records"), start=1):
        if not row["confirmed"]:
            continue
        cases = exploration.cases
        cases = cases[
            (cases["label"] == row["label"]) & (cases["half"] == "tested") & cases["filled"].notna()
        ]
        cases = cases[~cases["combination"].between(1, number_of_row - 1)]
        strata = _against_the_rest(cases, row, number_of_row, metric)
        drawn = distribution(
            strata, metric, label=str(row["label"]), column=column, at_most=_MOST_DOTS
        )
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
            values = np.array(shown(cases["filled"][where], metric))
            rows = cases.index[where].to_numpy(dtype=np.int64)
            found.append(StratumCases.of(place, name, values, rows, metric))
    return found


def parts_of(row: Mapping[Any, Any]) -> list[tuple[str, str]]:
    """Attribute and stratum of each part of a combination."""
    numbers = [n for n in (1, 2, 3) if row.get(f"attribute_{n}")]
    return [(str(row[f"attribute_{n}"]), str(row[f"stratum_{n}"])) for n in numbers]


def title(row: Mapping[Any, Any]) -> str:
    """The name of a combination: ``centre=A × scanner=B``."""
    return " × ".join(f"{attribute}={stratum}" for attribute, stratum in parts_of(row))


def heading(exploration: Exploration) -> str:
    """What stands out."""
    names = [title(row) for row in exploration.confirmed.to_dict("records")]
    if len(names) < 2:
        return f"{names[0] if names else 'Nothing'} stands out"
    return f"{count(len(names), 'combination')} stand out"


def size(exploration: Exploration) -> str:
    """What was looked at, and on how many cases."""
    cases = count(exploration.n_cases, "case")
    if exploration.n_patients < exploration.n_cases:
        cases += f" of {count(exploration.n_patients, 'patient')}"
    labels = exploration.labels
    of = labels[0] if len(labels) == 1 else count(len(labels), "label")
    looked_at = count(exploration.n_combinations, "combination")
    verb = "was" if exploration.n_combinations == 1 else "were"
    up_to = min(exploration.max_attributes, len(exploration.attributes))
    of_attributes = f"of up to {up_to} of {count(len(exploration.attributes), 'attribute')}"
    searched = f"{looked_at} {of_attributes} {verb} looked at in one half ({exploration.n_searched:,} cases)"
    metric = exploration.known_metric.title
    n = len(exploration.table)
    tested = "none was bad enough to be" if n == 0 else "1 was" if n == 1 else f"{n} were"
    return f"{metric} of {of}, {cases}. {searched}; {tested} tested in the other."


def findings(exploration: Exploration) -> list[str]:
    """A sentence per combination that was confirmed, or one that says that there is none."""
    if exploration.confirmed.empty:
        found = "No combination that was tested is worse than the rest there beyond what chance explains."
        if exploration.table.empty:
            found = "No combination was so much worse than the rest that it was tested."
        return [found, _could_have_found(exploration)]
    return [_finding(row, exploration) for row in exploration.confirmed.to_dict("records")]


def _could_have_found(exploration: Exploration) -> str:
    power = exploration.power
    metric = exploration.known_metric
    of = f" of {power.label}" if len(exploration.labels) > 1 else ""
    shift = "10 points" if metric.unit == "fraction" else f"10 {metric.unit}"
    worse = f"{shift} {'lower' if metric.more_is_better else 'farther from 0' if metric.is_signed else 'larger'}"
    halves = f"{count(power.n_group, 'case')} in each half (of {power.n_searched:,} and {power.n_tested:,})"
    return (
        f"What could have been found: a group with {halves} whose {metric.title}{of} is {worse} is confirmed in at "
        f"most {share(power.share)} of such data. Smaller groups and differences are found less often."
    )


def _finding(row: Mapping[Any, Any], exploration: Exploration) -> str:
    metric = exploration.known_metric
    of = f" of {row['label']}" if len(exploration.labels) > 1 else ""
    means = f"{quantity(row['mean_test'], metric)} in {count(row['n_test'], 'case')}"
    rest = f"{quantity(row['mean_rest_test'], metric)} in the other {row['n_rest_test']:,}"
    text = (
        f"{title(row)}: mean {metric.title}{of} {means}, {rest}. A case of it is worse than another in "
        f"{share(row['share_lower'])} of the pairs (Holm p {p_value(row['holm_p'])})."
    )
    if row["same_cases"]:
        text += f" The same cases are: {row['same_cases']}."
    return text


def combinations_table(exploration: Exploration) -> Table:
    """The combinations that were tested, those that were confirmed first of all in bold."""
    metric = exploration.known_metric
    several = len(exploration.labels) > 1

    def name(row: Mapping[Any, Any]) -> Cell:
        return Cell(
            title(row), (f"the same cases: {row['same_cases']}",) if row["same_cases"] else ()
        )

    def counted(row: Mapping[Any, Any]) -> str:
        n = row["n_test"]
        n_worst = row["n_worst_test"]
        return f"{n:,} ({n_worst} as worst)" if n_worst else f"{n:,}"

    def when_found(row: Mapping[Any, Any]) -> Cell:
        means = (number(row[column], metric) for column in ("mean_search", "mean_rest_search"))
        return Cell(" / ".join(means), (f"n = {row['n_search']:,}",))

    columns: list[Any] = [
        (Column("Combination", "name", spare="below"), name),
        *([(Column("Label", "text"), lambda row: str(row["label"]))] if several else []),
        (Column("n"), counted),
        (Column(f"Mean ({unit_sign(metric)})"), lambda row: number(row["mean_test"], metric)),
        (Column("Of the rest"), lambda row: number(row["mean_rest_test"], metric)),
        (Column("Worse in"), lambda row: share(row["share_lower"])),
        (Column("Holm p"), lambda row: p_value(row["holm_p"])),
        (Column("Confirmed", "text"), lambda row: "yes" if row["confirmed"] else "no"),
        (Column("When found: mean / rest", spare="column"), when_found),
    ]
    notes = (
        "Numbers are those of the half that was tested. Each row leaves out the cases of the rows above it"
        f"{' (of its label)' if several else ''}.",
        "Worse in: the share of all pairs of a case of the combination and another case in which the former is worse.",
        "When found: the means in the half in which the combination was found, which flatter the search and prove "
        "nothing.",
    )
    records = exploration.table.to_dict("records")
    kinds = ["confirmed" if row["confirmed"] else "refuted" for row in records]
    return Table.of("Combinations that were tested", columns, records, notes=notes, row_kinds=kinds)


def exploration_table(exploration: Exploration) -> RenderableType:
    """The combinations that were tested, and what was found, for rich's console.

    Names are shown as they are.
    """
    tables = [combinations_table(exploration)] if len(exploration.table) else []
    blocks: list[Block] = [
        Heading(heading(exploration)),
        Prose(size(exploration), kind=""),
        *tables,
    ]
    return printed([*blocks, Prose(findings(exploration)), *map(Note, exploration.notes)])
