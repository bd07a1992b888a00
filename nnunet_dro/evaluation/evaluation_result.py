"""The result of an evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Evaluation:
    """The scores of one method's predictions, and their statistics.

    Attributes:
        method: Name of the method that made the predictions; the heading in tables.
        scores: A row per case and label: ``case``, ``label``, a column per metric (NaN where undefined; fractions, or
            mm), ``n_reference``, ``n_prediction``, ``n_intersection`` (voxels), ``reference_ml``, ``prediction_ml``
            (NaN where the voxel size is not known), `LESION_COUNTS` where lesions were compared, then the other columns
            of the case table, as text.
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
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics, in the order of the columns."""
        return tuple(str(metric) for metric in self.strata["metric"].unique())

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels, in their order."""
        return tuple(str(label) for label in self.strata["label"].unique())
