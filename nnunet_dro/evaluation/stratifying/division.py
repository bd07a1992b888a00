"""How the case table divides the cases of an evaluation."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from nnunet_dro.evaluation.inputs.folders import Inputs
from nnunet_dro.evaluation.inputs.options import EvaluateOptions
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.evaluation.stratifying.attributes import CaseFiles
from nnunet_dro.evaluation.stratifying.auto_columns import names_columns, with_auto_columns
from nnunet_dro.evaluation.stratifying.parts import has_many_numbers
from nnunet_dro.evaluation.stratifying.stratify import (
    entries_of,
    notes_on_entries,
    strata_of_others,
    stratify_all,
)
from nnunet_dro.files.case_table import read_cases_of
from nnunet_dro.naming import count
from nnunet_dro.nnunet.raw_dataset import case_table_of

#: What a row of the strata frame is about, beside its attribute and stratum.
_KEYS = ("label", "metric", "baseline", "method")


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
        labels: Labels | None,
        progress: Callable[[int, int], None],
    ) -> "Division":
        """Read the case table and divide the cases of the inputs."""
        evaluated = [pair.case for pair in inputs.pairs]
        path = options.cases or default_case_table(reference, options.by, options.patient)
        table, notes = _case_table(path, {*references, *evaluated}, evaluated)
        if path and not options.cases:
            notes.append(f"The case table is {path}; --cases names another.")

        files = [
            CaseFiles(case, references[case], options.images, labels)
            for case in evaluated
            if case in references
        ]
        table, specs, notes_on_attributes = with_auto_columns(
            table, evaluated, files, options, progress
        )

        strata = stratify_all(table, specs, evaluated, overall=options.overall)
        notes += _notes_on_many_strata(strata)
        patient_of_case = entries_of(table, options.patient, evaluated, option="patient")
        notes += notes_on_entries(table, specs, options.patient)
        others = {} if table is None else strata_of_others(table, specs, evaluated)
        return cls(
            cases=tuple(evaluated),
            path=path,
            table=table,
            strata=strata,
            patient_of_case=patient_of_case,
            absent=_absent(strata, others, inputs.lacking),
            notes=(*notes, *notes_on_attributes),
        )

    @property
    def without_cases(self) -> dict[str, list[str]]:
        """Attribute to the strata of the case table without any case."""
        strata: dict[str, list[str]] = {}
        for attribute, n_absent in self.absent.items():
            with_cases = self.strata[attribute].cat.categories
            without = [stratum for stratum in n_absent if stratum not in with_cases]

            if without:
                strata[attribute] = without
        return strata


def _notes_on_many_strata(strata: "Mapping[str, pd.Series[str]]") -> list[str]:
    """A note on every attribute of numbers that were better cut.

    Numbers of centres divide many cases; ages and volumes hardly any two.
    """
    notes = []
    for attribute, stratum_of_case in strata.items():
        n_cases = len(stratum_of_case)
        n_strata = len(stratum_of_case.cat.categories)

        if 2 * n_strata > n_cases and has_many_numbers(stratum_of_case.tolist()):
            notes.append(
                f"{attribute} has {n_strata} strata for {n_cases} cases. --by {attribute}:q3 cuts "
                "the numbers into thirds of the cases."
            )
    return notes


def _absent(
    strata: "Mapping[str, pd.Series[str]]",
    others: Mapping[str, Mapping[str, str]],
    lacking: Sequence[str],
) -> dict[str, dict[str, int]]:
    """References without a prediction by attribute and stratum, see `Division`.

    Args:
        strata: Attribute to the stratum of each evaluated case.
        others: Attribute to the stratum of other cases of the table, as far as it is known.
        lacking: The cases whose prediction is missing.
    """
    absent = {}
    for attribute, stratum_of_case in strata.items():
        stratum_of_other = others.get(attribute, {})
        # Where the stratum is not known, it is None.
        n_lacking = Counter(stratum_of_other.get(case) for case in lacking)

        n_absent = {}
        names = map(str, stratum_of_case.cat.categories)
        for name in (*names, *stratum_of_other.values()):
            n_absent[name] = n_lacking[name] + n_lacking[None]
        absent[attribute] = n_absent
    return absent


def with_absent(statistics: pd.DataFrame, absent: Mapping[str, Mapping[str, int]]) -> pd.DataFrame:
    """The strata frame as requirements look at it: with what was expected and is absent.

    Args:
        statistics: A row per attribute, stratum, label, metric and so on.
        absent: As in `Division`.

    Returns:
        The frame with a column ``n_absent``, and with rows for the strata that it lacks, in which
        all counts are 0 and all other numbers NaN.
    """
    n_absent = []
    for attribute, stratum in zip(statistics["attribute"], statistics["stratum"], strict=True):
        n_absent_by_stratum = absent.get(str(attribute), {})
        n_absent.append(n_absent_by_stratum.get(str(stratum), 0))
    complete = statistics.assign(n_absent=n_absent)

    # The numbers of a stratum without a case.
    keys = [name for name in _KEYS if name in statistics]
    nothing: dict[str, float] = {}
    for column in statistics.columns.drop(["attribute", "stratum", *keys]):
        is_count = column == "n" or column.startswith("n_")
        nothing[column] = 0 if is_count else float("nan")

    parts = [complete]
    for attribute, n_absent_by_stratum in absent.items():
        rows = complete[complete["attribute"] == attribute]
        present = set(rows["stratum"].astype(str))
        places = rows.drop_duplicates(keys)

        for stratum, n in n_absent_by_stratum.items():
            if stratum in present:
                continue
            added = places.assign(
                stratum=stratum,
                n_absent=n,
                **nothing,
            )
            parts.append(added)
    return pd.concat(parts, ignore_index=True)


def default_case_table(reference: Path, by: Sequence[str], patient: str | None) -> Path | None:
    """The case table of the dataset of the references.

    None where neither ``by`` nor ``patient`` names a column.
    """
    if patient is None and not names_columns(by):
        return None
    return case_table_of(reference)


def _case_table(
    path: Path | None, expected: Collection[str], evaluated: Sequence[str]
) -> tuple[pd.DataFrame | None, list[str]]:
    """The case table, checked against the cases, and a note on rows of cases not expected in it."""
    if path is None:
        return None, []

    table = read_cases_of(path, evaluated, others=expected)
    n = len(set(table["case"]) - set(expected))
    if not n:
        return table, []
    verbs = "has no reference and is" if n == 1 else "have no reference and are"
    return table, [f"{count(n, 'row')} of the case table {verbs} not evaluated."]
