"""How the case table divides the cases of an evaluation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from nnunet_dro.case_table import MISSING, attributes_of, check_cases, read_cases
from nnunet_dro.evaluation.inputs import Inputs
from nnunet_dro.evaluation.strata import stratify_all
from nnunet_dro.naming import name_some


@dataclass(frozen=True)
class Division:
    """What the case table says of the evaluated cases.

    Attributes:
        cases: Their names, sorted.
        table: The case table, if there is one.
        strata: Attribute to the stratum of each case.
        patient_of_case: The patient of each case; None where every case is another patient.
        notes: What is to be said of attributes that were computed.
    """

    cases: tuple[str, ...]
    table: pd.DataFrame | None
    strata: "Mapping[str, pd.Series[str]]"
    patient_of_case: "pd.Series[str] | None"
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        inputs: Inputs,
        path: Path | None,
        references: Mapping[str, Path],
        *,
        by: Sequence[str],
        overall: bool,
        patient: str | None,
        ignore_unknown: bool,
        measure: Callable[[pd.DataFrame | None, Mapping[str, Path]], tuple[pd.DataFrame | None, list[str], list[str]]],
    ) -> "Division":
        """Read the case table and divide the cases of the inputs.

        Args:
            inputs: The files.
            path: The case table, if there is one.
            references: Case to its reference, for the cases that have one.
            by: What divides the cases; see `parse_by`.
            overall: Whether all cases together are divided off, too.
            patient: Column that names the patient of each case, if one does.
            ignore_unknown: Whether to ignore rows of cases without a reference.
            measure: Adds the columns of ``by`` that are computed, from the case table and the references of the
                cases; see `with_auto_columns`.

        Raises:
            FileNotFoundError: If there is no such table.
            ValueError: If it cannot be used; the message names it.
        """
        evaluated = [pair.case for pair in inputs.pairs]
        table = _case_table(path, set(references), evaluated, ignore_unknown=ignore_unknown)
        table, specs, notes = measure(table, {case: references[case] for case in evaluated if case in references})
        strata = stratify_all(table, specs, evaluated, overall=overall)
        return cls(tuple(evaluated), table, strata, _patients(table, patient, evaluated), tuple(notes))


def _case_table(
    path: Path | None, references: set[str], evaluated: Sequence[str], *, ignore_unknown: bool
) -> pd.DataFrame | None:
    """The case table, checked against the cases."""
    if path is None:
        return None
    table = read_cases(path)
    try:
        # Rows of references that are not evaluated, such as those of other folds, are no mistake.
        others = references & set(table["case"])
        check_cases(table, {*evaluated, *others}, unknown="ignore" if ignore_unknown else "error")
    except ValueError as error:
        raise ValueError(f"{error} The table is {str(path)!r}.") from error
    return table


def _patients(table: pd.DataFrame | None, column: str | None, cases: Sequence[str]) -> "pd.Series[str] | None":
    """The patient of each evaluated case."""
    if column is None:
        return None
    if table is None:
        raise ValueError(f"`patient` must come with a case table, got {column!r} alone. Name the table with --cases.")
    if column not in attributes_of(table):
        known = name_some(attributes_of(table), at_most=20)
        raise ValueError(f"`patient` must be a column of the case table, got {column!r}. Choose from: {known}.")
    patients = table.set_index("case")[column].reindex(list(cases))
    if without := [str(case) for case in patients.index[patients == MISSING]]:
        raise ValueError(f"`{column}` must name a patient for every case, got none for {name_some(without)}. Add it.")
    return patients
