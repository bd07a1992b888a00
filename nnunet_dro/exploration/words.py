"""What readers are told of an exploration, on the page and in the terminal alike."""

from collections.abc import Mapping
from typing import Any

from nnunet_dro.evaluation.report.formatting import p_value, quantity
from nnunet_dro.exploration.exploration import Exploration
from nnunet_dro.pages.wording import count, share

#: What the page and the terminal print under the table.
ON_TABLE = "Numbers are those of the half that was tested. Each row leaves out the cases of the rows above it"


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
    return f"{metric} of {of}, {cases}. {searched}; {_tested(exploration)} tested in the other."


def _tested(exploration: Exploration) -> str:
    n = len(exploration.table)
    return "none was bad enough to be" if n == 0 else "1 was" if n == 1 else f"{n} were"


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
    lower = "10 points lower" if metric.unit == "fraction" else f"10 {metric.unit} larger"
    halves = f"{count(power.n_group, 'case')} in each half (of {power.n_searched:,} and {power.n_tested:,})"
    return (
        f"What could have been found: a group with {halves} whose {metric.title}{of} is {lower} is confirmed in at "
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


def on_table(exploration: Exploration) -> str:
    """What the table shows."""
    return f"{ON_TABLE}{' (of its label)' if len(exploration.labels) > 1 else ''}."
