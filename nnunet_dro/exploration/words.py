"""What readers are told of an exploration, in sentences and in a table.

The page shows both, and so does the terminal.
"""

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType

from nnunet_dro.evaluation.report.formatting import number, p_value, quantity, unit_sign
from nnunet_dro.exploration.exploration import Exploration
from nnunet_dro.naming import count, share
from nnunet_dro.pages.document import Block, Cell, Column, Heading, Note, Prose, Table
from nnunet_dro.pages.terminal import printed


def exploration_table(exploration: Exploration) -> RenderableType:
    """The combinations that were tested, and what was found, for rich's console.

    Names are shown as they are.
    """
    blocks: list[Block] = [
        Heading(heading(exploration)),
        Prose(size(exploration), kind=""),
        *tested_combinations(exploration),
        Prose(findings(exploration)),
        *map(Note, exploration.notes),
    ]
    return printed(blocks)


def parts_of(row: Mapping[Any, Any]) -> list[tuple[str, str]]:
    """Attribute and stratum of each part of a combination."""
    parts = []
    for number_of_part in (1, 2, 3):
        attribute = row.get(f"attribute_{number_of_part}")
        if attribute:
            stratum = row[f"stratum_{number_of_part}"]
            parts.append((str(attribute), str(stratum)))
    return parts


def title(row: Mapping[Any, Any]) -> str:
    """The name of a combination: ``centre=A × scanner=B``."""
    return " × ".join(f"{attribute}={stratum}" for attribute, stratum in parts_of(row))


def heading(exploration: Exploration) -> str:
    """What stands out."""
    names = [title(row) for row in exploration.confirmed.to_dict("records")]
    if not names:
        return "Nothing stands out"
    if len(names) == 1:
        return f"{names[0]} stands out"
    return f"{count(len(names), 'combination')} stand out"


def size(exploration: Exploration) -> str:
    """What was looked at, and on how many cases."""
    cases = count(exploration.n_cases, "case")
    if exploration.n_patients < exploration.n_cases:
        cases += f" of {count(exploration.n_patients, 'patient')}"
    labels = count(len(exploration.labels), "label")
    if len(exploration.labels) == 1:
        labels = exploration.labels[0]

    n_attributes = len(exploration.attributes)
    up_to = min(exploration.max_attributes, n_attributes)
    were = "was" if exploration.n_combinations == 1 else "were"
    return (
        f"{exploration.known_metric.title} of {labels}, {cases}. "
        f"{count(exploration.n_combinations, 'combination')} of up to {up_to} of "
        f"{count(n_attributes, 'attribute')} {were} looked at in one half "
        f"({exploration.n_searched:,} cases); {_were_tested(len(exploration.table))} tested in the "
        "other."
    )


def _were_tested(n: int) -> str:
    if n == 0:
        return "none was bad enough to be"
    return "1 was" if n == 1 else f"{n} were"


def findings(exploration: Exploration) -> list[str]:
    """A sentence per combination that was confirmed, or one that says that there is none."""
    if len(exploration.confirmed):
        return [_finding(row, exploration) for row in exploration.confirmed.to_dict("records")]
    if exploration.table.empty:
        nothing = "No combination was so much worse than the rest that it was tested."
    else:
        nothing = (
            "No combination that was tested is worse than the rest there beyond what chance "
            "explains."
        )
    return [nothing, _could_have_found(exploration)]


def _could_have_found(exploration: Exploration) -> str:
    """How large a difference would have been found, and how often."""
    power = exploration.power
    metric = exploration.known_metric
    score = metric.title
    if len(exploration.labels) > 1:
        score += f" of {power.label}"

    shift = "10 points" if metric.unit == "fraction" else f"10 {metric.unit}"
    worse = "larger"
    if metric.more_is_better:
        worse = "lower"
    elif metric.is_signed:
        worse = "farther from 0"
    return (
        f"What could have been found: a group with {count(power.n_group, 'case')} in each half "
        f"(of {power.n_searched:,} and {power.n_tested:,}) whose {score} is {shift} {worse} is "
        f"confirmed in {share(power.share)} of such data if the search hits on it. Smaller groups "
        "and differences are found less often."
    )


def _finding(row: Mapping[Any, Any], exploration: Exploration) -> str:
    """How much worse a combination is than the rest."""
    metric = exploration.known_metric
    score = metric.title
    if len(exploration.labels) > 1:
        score += f" of {row['label']}"

    mean = f"{quantity(row['mean_test'], metric)} in {count(row['n_test'], 'case')}"
    rest = f"{quantity(row['mean_rest_test'], metric)} in the other {row['n_rest_test']:,}"
    text = (
        f"{title(row)}: mean {score} {mean}, {rest}. A case of it is worse than another in "
        f"{share(row['share_lower'])} of the pairs (Holm p {p_value(row['holm_p'])})."
    )
    if row["same_cases"]:
        text += f" The same cases are: {row['same_cases']}."
    return text


def tested_combinations(exploration: Exploration) -> list[Table]:
    """The table of the combinations that were tested, if there are any."""
    return [_combinations_table(exploration)] if len(exploration.table) else []


def _combinations_table(exploration: Exploration) -> Table:
    """The combinations that were tested, in the order of the search."""
    metric = exploration.known_metric
    has_labels = len(exploration.labels) > 1

    def name(row: Mapping[Any, Any]) -> Cell:
        twins = row["same_cases"]
        return Cell(title(row), (f"the same cases: {twins}",)) if twins else Cell(title(row))

    def counted(row: Mapping[Any, Any]) -> str:
        n_worst = row["n_worst_test"]
        n = f"{row['n_test']:,}"
        return f"{n} ({n_worst} as worst)" if n_worst else n

    def when_found(row: Mapping[Any, Any]) -> Cell:
        mean = number(row["mean_search"], metric)
        rest = number(row["mean_rest_search"], metric)
        return Cell(f"{mean} / {rest}", (f"n = {row['n_search']:,}",))

    columns: list[Any] = [(Column("Combination", "name", spare="below"), name)]
    if has_labels:
        columns.append((Column("Label", "text"), lambda row: str(row["label"])))
    columns += [
        (Column("n"), counted),
        (Column(f"Mean ({unit_sign(metric)})"), lambda row: number(row["mean_test"], metric)),
        (Column("Of the rest"), lambda row: number(row["mean_rest_test"], metric)),
        (Column("Worse in"), lambda row: share(row["share_lower"])),
        (Column("Holm p"), lambda row: p_value(row["holm_p"])),
        (Column("Confirmed", "text"), lambda row: "yes" if row["confirmed"] else "no"),
        (Column("When found: mean / rest", spare="column"), when_found),
    ]

    rows_above = "the rows above it"
    if has_labels:
        rows_above += " (of its label)"
    notes = (
        "Numbers are those of the half that was tested. Each row leaves out the cases of "
        f"{rows_above}.",
        "Worse in: the share of all pairs of a case of the combination and another case in which "
        "the former is worse.",
        "When found: the means in the half in which the combination was found, which flatter the "
        "search and prove nothing.",
    )
    records = exploration.table.to_dict("records")
    return Table.of(
        "Combinations that were tested",
        columns,
        records,
        notes=notes,
        row_kinds=["confirmed" if row["confirmed"] else "refuted" for row in records],
    )
