"""How the case table divides the cases of an evaluation."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from nnunet_dro.evaluation.inputs import Inputs
from nnunet_dro.evaluation.options import EvaluateOptions
from nnunet_dro.evaluation.stratifying.attributes import CaseFiles, names_columns, with_auto_columns
from nnunet_dro.evaluation.stratifying.stratify import (
    entries_of,
    has_many_numbers,
    strata_of_others,
    stratify_all,
)
from nnunet_dro.files.case_table import read_cases_of
from nnunet_dro.nnunet.raw_dataset import case_table_of


@dataclass(frozen=True)
class Division:
    """What the case table says of the evaluated cases."""

    cases: tuple[str, ...]
    path: Path | None  # the file of the case table; None without any
    table: pd.DataFrame | None
    strata: "Mapping[str, pd.Series[str]]"
    patient_of_case: "pd.Series[str] | None"
    #: Attribute to stratum, also one without a case, to its references without a prediction; one
    #: whose stratum is not known counts in each of them.
    absent: "Mapping[str, Mapping[str, int]]" = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        inputs: Inputs,
        reference: Path,
        references: Mapping[str, Path],
        options: EvaluateOptions,
        *,
        ignore: int | None,
        progress: Callable[[int, int], None],
    ) -> "Division":
        """Read the case table and divide the cases of the inputs."""
        evaluated = [pair.case for pair in inputs.pairs]
        found = options.cases or default_case_table(reference, options.by, options.patient)
        table, notes = _case_table(found, {*references, *evaluated}, evaluated)
        if found and not options.cases:
            notes.append(f"The case table is {found}; --cases names another.")
        files = [
            CaseFiles(case, references[case], options.images, ignore)
            for case in evaluated
            if case in references
        ]
        table, specs, notes_on_attributes = with_auto_columns(table, files, options, progress)
        strata = stratify_all(table, specs, evaluated, overall=options.overall)
        for attribute, of_case in strata.items():
            n_strata = len(of_case.cat.categories)
            # Numbers of centres divide many cases; ages and volumes hardly any two.
            if 2 * n_strata > len(of_case) and has_many_numbers(of_case.tolist()):
                cure = f"--by {attribute}:q3 cuts the numbers into thirds of the cases."
                notes.append(f"{attribute} has {n_strata} strata for {len(of_case)} cases. {cure}")
        patients = entries_of(table, options.patient, evaluated, option="patient")
        others = {} if table is None else strata_of_others(table, specs, evaluated)
        absent = _absent(strata, others, inputs.lacking)
        return cls(
            tuple(evaluated), found, table, strata, patients, absent, (*notes, *notes_on_attributes)
        )

    @property
    def without_cases(self) -> dict[str, list[str]]:
        """Attribute to the strata of the case table without any case."""
        found = {
            a: [s for s in of if s not in self.strata[a].cat.categories]
            for a, of in self.absent.items()
        }
        return {attribute: names for attribute, names in found.items() if names}


def _absent(
    strata: "Mapping[str, pd.Series[str]]",
    others: Mapping[str, Mapping[str, str]],
    lacking: Sequence[str],
) -> dict[str, dict[str, int]]:
    absent: dict[str, dict[str, int]] = {}
    for attribute, stratum_of_case in strata.items():
        of_others = others.get(attribute, {})
        counts = Counter(of_others.get(case) for case in lacking)
        names = dict.fromkeys([*map(str, stratum_of_case.cat.categories), *of_others.values()])
        absent[attribute] = {name: counts[name] + counts[None] for name in names}
    return absent


def with_absent(statistics: pd.DataFrame, absent: Mapping[str, Mapping[str, int]]) -> pd.DataFrame:
    """The strata frame as requirements look at it: with what was expected and is absent."""
    places = zip(statistics["attribute"], statistics["stratum"], strict=True)
    parts = [statistics.assign(n_absent=[absent.get(str(a), {}).get(str(s), 0) for a, s in places])]
    keys = [
        name
        for name in ("attribute", "stratum", "label", "metric", "baseline", "method")
        if name in statistics
    ]
    numbers = statistics.columns.drop(keys)
    nothing = {
        column: 0 if column.startswith("n_") or column == "n" else float("nan")
        for column in numbers
    }
    for attribute, of_stratum in absent.items():
        rows = parts[0][parts[0]["attribute"] == attribute]
        known = set(rows["stratum"].astype(str))
        names = rows.drop_duplicates(keys[2:])
        parts += [
            names.assign(stratum=s, n_absent=n, **nothing)
            for s, n in of_stratum.items()
            if s not in known
        ]
    return pd.concat(parts, ignore_index=True)


def default_case_table(reference: Path, by: Sequence[str], patient: str | None) -> Path | None:
    """The case table of the dataset of the references, where ``by`` or ``patient`` names a column."""
    return case_table_of(reference) if patient is not None or names_columns(by) else None


def _case_table(
    path: Path | None, known: Collection[str], evaluated: Sequence[str]
) -> tuple[pd.DataFrame | None, list[str]]:
    """The case table, checked against the cases, and a note on rows of unknown cases."""
    if path is None:
        return None, []
    table = read_cases_of(path, evaluated)
    n = len(set(table["case"]) - set(known))
    rows = f"{n} row of the case table has" if n == 1 else f"{n} rows of the case table have"
    return table, [
        f"{rows} no reference and {'is' if n == 1 else 'are'} not evaluated."
    ] if n else []
