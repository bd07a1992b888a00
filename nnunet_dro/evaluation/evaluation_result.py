"""The result of an evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.options import EvaluateOptions
from nnunet_dro.evaluation.scoring.score_arrays import NUMBERS

_OF_CASE_TABLE = " (case table)"


def column_in_scores(name: str) -> str:
    """What a column of the case table is called among the scores, which may have one of its name.

    Example:
        >>> column_in_scores("centre"), column_in_scores("label")
        ('centre', 'label (case table)')
    """
    return name + _OF_CASE_TABLE if name == "label" or name in NUMBERS else name


@dataclass(frozen=True)
class Evaluation:
    """The scores of one method's predictions, and their statistics.

    Attributes:
        method: Name of the method that made the predictions; the heading in tables.
        scores: A row per case and label: ``case``, ``label``, a column per metric (NaN where undefined; fractions, or
            mm), ``n_reference``, ``n_prediction``, ``n_intersection`` (voxels), ``reference_ml``, ``prediction_ml``
            (NaN where the voxel size is not known), `LESION_COUNTS` where lesions were compared, then the other columns
            of the case table, as text, under the names of `column_in_scores`.
        strata: From `summarise`: a row per attribute, stratum, label and metric, in the order to show them.
        stratum_of_case: Attribute to the stratum of each case (ordered categories, indexed by case).
        worst: From `worst_strata`.
        false_positives: From `false_positives`.
        about: What summary.json says of the run: ``versions``, ``options``, ``definitions``, ``inputs``.
        lesions: A row per lesion of the labels that were compared lesion by lesion; see `lesion_columns`. Empty without
            any.
        lesion_sizes: From `lesion_sizes`; empty likewise where no label was compared lesion by lesion.
        notes: Sentences for the reader: on extra predictions, cases without a value ...
    """

    method: str
    scores: pd.DataFrame
    strata: pd.DataFrame
    stratum_of_case: "Mapping[str, pd.Series[str]]"
    worst: pd.DataFrame
    false_positives: pd.DataFrame
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    lesions: pd.DataFrame = field(default_factory=pd.DataFrame)
    lesion_sizes: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def options(self) -> EvaluateOptions:
        """The options that it was made with."""
        return EvaluateOptions.of(self.about.get("options", {}))

    @property
    def absent(self) -> tuple[str, ...]:
        """The references without a prediction that were to be expected."""
        return tuple(self.about.get("inputs", {}).get("references_without_prediction", ()))

    @property
    def strata_without_cases(self) -> Mapping[str, Sequence[str]]:
        """Attribute to the strata of the case table without any evaluated case."""
        strata: Mapping[str, Sequence[str]] = self.about.get("inputs", {}).get("strata_without_cases", {})
        return strata

    @property
    def case_table(self) -> pd.DataFrame:
        """The other columns of the case table, a row per case with the index ``case``."""
        own = {"case", "label", *NUMBERS}
        columns = [str(column) for column in self.scores.columns if column not in own]
        entries = self.scores.drop_duplicates("case").set_index("case")[columns]
        return entries.rename(columns={name: name.removesuffix(_OF_CASE_TABLE) for name in columns})

    @property
    def patient_of_case(self) -> "pd.Series[str] | None":
        """The patient of each case, named after the column; None where every case is another patient's."""
        column, table = self.options.patient, self.case_table
        return table[column].astype(str) if column in table else None

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics, in the order of the columns."""
        return tuple(str(metric) for metric in self.strata["metric"].unique())

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels, in their order."""
        return tuple(str(label) for label in self.strata["label"].unique())
