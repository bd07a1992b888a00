"""The result of an evaluation, and what summary.json says of the run.

The latter is what it takes to make the numbers again.
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro import __version__
from nnunet_dro.choices import EmptyRule
from nnunet_dro.evaluation.inputs.folders import Inputs
from nnunet_dro.evaluation.inputs.options import EvaluateOptions
from nnunet_dro.evaluation.scoring.metrics import METRICS, in_pixels
from nnunet_dro.evaluation.scoring.score_cases import ScoredPairs
from nnunet_dro.evaluation.scoring.scoring import NUMBERS, Scoring
from nnunet_dro.evaluation.statistics.equity import equity
from nnunet_dro.evaluation.stratifying.division import Division
from nnunet_dro.files.output_folder import sha256_of_text

_OF_CASE_TABLE = " (case table)"

#: The columns of the scores that are not of the case table.
_OWN_COLUMNS = {"case", "label", *NUMBERS}


def column_in_scores(name: str) -> str:
    """What a column of the case table is called among the scores.

    These may have one of its name.
    """
    if name == "label" or name in NUMBERS:
        return name + _OF_CASE_TABLE
    return name


@dataclass(frozen=True)
class Evaluation:
    """The scores of one method's predictions, and their statistics.

    Attributes:
        method: Name of the method that made the predictions; the heading in tables.
        scores: A row per case and label: ``case``, ``label``, a column per metric (NaN where
            undefined; fractions, or mm), ``n_reference``, ``n_prediction``, ``n_intersection``
            (voxels), ``reference_ml``, ``prediction_ml`` (NaN where the voxel size is not known),
            `LESION_COUNTS` where lesions were compared, then the other columns of the case table,
            as text, under the names of `column_in_scores`.
        strata: From `summarise`: a row per attribute, stratum, label and metric, in the order to
            show them.
        stratum_of_case: Attribute to the stratum of each case (ordered categories, indexed by
            case).
        worst: From `worst_strata`.
        false_positives: From `false_positives`.
        about: What summary.json says of the run: ``versions``, ``options``, ``definitions``,
            ``inputs``.
        lesions: A row per lesion of the labels that were compared lesion by lesion; see
            `LESION_COLUMNS` and distances. Empty without any.
        lesion_sizes: From `lesion_sizes`; empty likewise where no label was compared lesion by
            lesion.
        notes: Sentences for the reader: on extra predictions, cases without a value ... (Which
            percentiles rest on few cases follows from ``strata``; see `percentile_notes`.)
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
    #: What several reports need and takes long, by name: the first of them computes it.
    computed: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def options(self) -> EvaluateOptions:
        """The options that it was made with."""
        return EvaluateOptions.of(self.about.get("options", {}))

    @property
    def inputs(self) -> Mapping[str, Any]:
        """What summary.json says of its files."""
        return self.about.get("inputs", {})

    @property
    def absent(self) -> tuple[str, ...]:
        """The references without a prediction that were to be expected."""
        return tuple(self.inputs.get("references_without_prediction", ()))

    @cached_property
    def case_table(self) -> pd.DataFrame:
        """The other columns of the case table, a row per case with the index ``case``."""
        columns = [name for name in map(str, self.scores.columns) if name not in _OWN_COLUMNS]
        entries = self.scores.drop_duplicates("case").set_index("case")[columns]
        return entries.rename(columns=lambda name: name.removesuffix(_OF_CASE_TABLE))

    @property
    def patient_of_case(self) -> "pd.Series[str] | None":
        """The patient of each case, named after the column.

        None where every case is another patient's.
        """
        column = self.options.patient
        table = self.case_table
        if column not in table:
            return None
        return table[column].astype(str)

    def patient_numbers(self, cases: Sequence[str]) -> tuple[npt.NDArray[np.intp], str | None]:
        """The number of each case's patient, and the column that names it.

        None where every case is another's.
        """
        patient_of_case = self.patient_of_case
        if patient_of_case is None:
            return np.arange(len(cases), dtype=np.intp), None

        numbers, _ = pd.factorize(patient_of_case.reindex(list(cases)))
        return numbers.astype(np.intp), str(patient_of_case.name)

    @cached_property
    def equity(self) -> pd.DataFrame:
        """How far the strata of each attribute lie apart; see `equity`."""
        return equity(self.strata)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics, in the order of the columns."""
        return tuple(map(str, self.strata["metric"].unique()))

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels, in their order."""
        return tuple(map(str, self.strata["label"].unique()))


#: What the statistics of a stratum are.
STATISTICS_DEFINED = {
    "mean": "mean of the cases with a value",
    "std": "sample standard deviation (n - 1)",
    "percentiles": "linear interpolation between order statistics; "
    "p5 is the value that 5 % of the cases lie below",
    "iqr": "p75 - p25",
    "interval": "95 % interval, from six values on. Percentiles: exact order statistics. "
    "iqr: the bounds of p75 and p25. Mean: Student's t, corrected for skewness",
    "guaranteed": "mean_low_guaranteed and mean_high_guaranteed, of fractions: proven by bets "
    "against each mean (Waudby-Smith and Ramdas 2024), for independent cases between 0 and 1; each "
    "holds with 97.5 %. failure_high: exact, with 95 % (Clopper-Pearson)",
}

#: How a label is scored that reference or prediction lacks.
_EMPTY = {
    EmptyRule.UNDEFINED: "a label in neither reference nor prediction has no value and is left "
    "out; one in only one of the two has Dice 0 and no distance",
    EmptyRule.ONE: "a label in neither reference nor prediction has Dice 1 and distance 0; "
    "one in only one of the two has Dice 0 and no distance",
    EmptyRule.BRATS: "a label in neither reference nor prediction has Dice 1 and distance 0; "
    "one in only one of the two has Dice 0 and distance 374 mm",
    EmptyRule.DIAGONAL: "a label in neither reference nor prediction has no value and is left "
    "out; one in only one of the two has Dice 0 and the length of the image's diagonal as distance",
}


def about_evaluation(
    options: Mapping[str, Any],
    scoring: Scoring,
    inputs: Inputs,
    scored: ScoredPairs,
    division: Division,
    *,
    sha256_of_files: Mapping[str, str],
) -> dict[str, Any]:
    """What summary.json says of an evaluation beside its results.

    Args:
        options: Those that it was made with, as `EvaluateOptions.record` has them.
        scoring: The metrics and how they were computed.
        inputs: The files of the cases.
        scored: Their scores.
        division: Their strata, and those of cases that have no prediction.
        sha256_of_files: The name of each other file, such as ``case_table``, to its digest.
    """
    packages = ["numpy", "pandas", "scipy", "SimpleITK"]
    if scoring.instances:
        packages.append("connected-components-3d")

    return {
        "versions": versions(*packages),
        "options": dict(options),
        "definitions": _definitions(scoring, scored.table),
        "inputs": _about_inputs(inputs, scored, division, sha256_of_files),
    }


def _definitions(scoring: Scoring, scores: pd.DataFrame) -> dict[str, str]:
    """The definitions of metrics, lesions and statistics, and what becomes of empty labels."""
    definitions = {name: METRICS[name].definition for name in scoring.metrics}

    unit = METRICS["hd95"].measured(pixels=in_pixels(scores)).unit
    for name in scoring.metrics:
        if METRICS[name].has_tolerance:
            definitions[name] += f"; tolerance {scoring.nsd_tolerance_mm:.15g} {unit}"
    if scoring.instances:
        definitions["lesions"] = scoring.instances.definition

    definitions |= STATISTICS_DEFINED
    definitions["empty"] = _EMPTY[EmptyRule(scoring.empty)]
    return definitions


def _about_inputs(
    inputs: Inputs,
    scored: ScoredPairs,
    division: Division,
    sha256_of_files: Mapping[str, str],
) -> dict[str, Any]:
    """The files and what tells whether they are the same again."""
    files = {}
    for pair in inputs.pairs:
        prediction = pair.prediction.absolute() if pair.prediction else ""
        files[pair.case] = [str(pair.reference.absolute()), str(prediction)]
    predictions = [pair.prediction for pair in inputs.pairs if pair.prediction]

    # A list with a line per case, so that one number stands for all files.
    digests = scored.sha256.items()
    reference_lines = [f"{case} {sha256}" for case, (sha256, _) in digests]
    prediction_lines = [f"{case} {sha256}" for case, (_, sha256) in digests]

    return {
        "n_cases": len(inputs.pairs),
        "missing_predictions": inputs.missing,
        "references_without_prediction": list(inputs.lacking),
        "reference_names_sha256": _digest([pair.reference.name for pair in inputs.pairs]),
        "prediction_names_sha256": _digest([path.name for path in predictions]),
        "references_sha256": _digest(reference_lines),
        "predictions_sha256": _digest(prediction_lines),
        **{f"{name}_sha256": digest for name, digest in sha256_of_files.items()},
        "files": files,
        "files_sha256": {case: list(digests) for case, digests in scored.sha256.items()},
        "strata_without_cases": division.without_cases,
        "absent": division.absent,
        "invalid_predictions": dict(inputs.invalid),
    }


def versions(*packages: str) -> dict[str, str]:
    """The versions of this package, of Python and of some other packages."""
    return {
        "nnunet-dro": __version__,
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }


def _digest(lines: Sequence[str]) -> str:
    """SHA-256 of lines, in the order of the cases; empty without any."""
    return sha256_of_text("\n".join(lines)) if lines else ""
