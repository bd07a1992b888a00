"""What readers are told of an exploration: sentences and the table, for the page and for the terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType

from nnunet_dro.evaluation.report.formatting import number, p_value, quantity, unit_sign
from nnunet_dro.exploration.exploration import Exploration
from nnunet_dro.naming import count, share
from nnunet_dro.pages.document import Block, Cell, Column, Heading, Note, Prose, Table
from nnunet_dro.pages.terminal import printed


def parts_of(row: Mapping[Any, Any]) -> list[tuple[str, str]]:
    """Attribute and stratum of each part of a combination."""
    numbers = [n for n in (1, 2, 3) if row.get(f"attribute_{n}")]
    return [(str(row[f"attribute_{n}"]), str(row[f"stratum_{n}"])) for n in numbers]


def title(row: Mapping[Any, Any]) -> str:
    """The name of a combination: ``centre=A × scanner=B``."""
    return " × ".join(f"{attribute}={stratum}" for attribute, stratum in parts_of(row))


def heading(exploration: Exploration) -> str:
    """What stands out."""
    confirmed = exploration.confirmed
    if len(confirmed) == 0:
        return "Nothing stands out"
    if len(confirmed) == 1:
        return f"{title(confirmed.iloc[0].to_dict())} stands out"
    return f"{count(len(confirmed), 'combination')} stand out"


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
        found = "No combination that was tested is worse than the rest there."
        if exploration.table.empty:
            found = "No combination was so much worse than the rest that it was tested."
        return [found, could_have_found(exploration)]
    return [_finding(row, exploration) for row in exploration.confirmed.to_dict("records")]


def could_have_found(exploration: Exploration) -> str:
    """What was large enough to be found in halves of this size."""
    power, metric = exploration.power, exploration.known_metric
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


def counted(row: Mapping[Any, Any]) -> str:
    """The number of cases that were tested, such as ``10`` or ``10 (2 as worst)``."""
    return f"{row['n_test']:,} ({row['n_worst_test']} as worst)" if row["n_worst_test"] else f"{row['n_test']:,}"


def combinations_table(exploration: Exploration) -> Table:
    """The combinations that were tested, those that were confirmed first of all in bold."""
    metric = exploration.known_metric
    several = len(exploration.labels) > 1

    def name(row: Mapping[Any, Any]) -> Cell:
        return Cell(title(row), (f"the same cases: {row['same_cases']}",) if row["same_cases"] else ())

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
    """The combinations that were tested, and what was found, for rich's console; names are shown as they are."""
    tables = [combinations_table(exploration)] if len(exploration.table) else []
    blocks: list[Block] = [Heading(heading(exploration)), Prose(size(exploration), kind=""), *tables]
    return printed([*blocks, Prose(findings(exploration)), *map(Note, exploration.notes)])
