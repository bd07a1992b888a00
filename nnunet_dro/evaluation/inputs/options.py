"""The options of evaluating, once.

For Python, the command line, protocols and summary.json.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from nnunet_dro.choices import (
    EmptyRule,
    MissingRule,
    PatientScore,
    choice_of,
)
from nnunet_dro.evaluation.inputs.flags import (
    LESIONS,
    MODEL,
    REQUIREMENTS,
    RUNNING,
    SCORES,
    STRATA,
    Flag,
    declared,
)

if TYPE_CHECKING:
    from nnunet_dro.evaluation.scoring.failures import Failure
    from nnunet_dro.evaluation.scoring.instances import Instances
    from nnunet_dro.evaluation.scoring.scoring import Scoring

Resamples = Annotated[
    int,
    Flag(
        "0 for no intervals; no other number has an effect, because none is drawn by chance.",
        RUNNING,
        "bootstrap",
        least=0,
    ),
]
Seed = Annotated[int, Flag("Without effect: no interval is drawn by chance.", RUNNING, least=0)]


@dataclass(frozen=True, kw_only=True)
class LockedEvaluation:
    """What decides how predictions are judged, and a protocol locks.

    The other fields are as the help says.

    Attributes:
        by: What divides the cases: columns of the case table, intersections, or cut columns; see
            `parse_by`. Attributes such as ``auto:size`` are computed; see `ATTRIBUTES`.
        empty: How to score a label that reference or prediction lacks; see `Scoring`.
        missing: ``error``, or ``worst`` to score a missing prediction as failed (fractions 0,
            distances the diagonal of the image).
        failure: When a case has failed, a condition on one of the metrics. None stands for
            `DEFAULT_FAILURE`, which may be on a metric that is not computed.
        match: How lesions are matched; see `parse_match`.
        requirements: As for `parse_requirement`; the outcomes are in ``about["requirements"]``.
    """

    by: Annotated[
        Sequence[str],
        Flag(
            "Column of the case table to report by (repeatable); centre,pathology for both at "
            "once; age:0,18,65 or volume:q3 to cut numbers; auto:size, auto:components, "
            "auto:spacing, auto:volume, auto:contrast, auto:noise or auto:rarity to compute it.",
            is_column=True,
        ),
    ] = ()
    metrics: Annotated[
        Sequence[str],
        Flag(
            "Any of dice, iou, sensitivity, precision, hd95, hd95_pooled, hd, assd, nsd, "
            "volume_error, absolute_volume_error, relative_volume_error, "
            "absolute_relative_volume_error, false_positive_volume, cldice, betti0_error, "
            "betti1_error and betti2_error; with --instances also lesion_recall, "
            "lesion_precision, lesion_f1, pq, sq, rq, lesion_dice, lesion_hd95 and lesion_nsd.",
            has_commas=True,
        ),
    ] = ("dice",)
    overall: Annotated[
        bool, Flag("Report all cases together, too, where --by divides them.", STRATA)
    ] = True
    reference_stratum: Annotated[
        str | None,
        Flag("Stratum that the worst one is compared with, in place of the best one.", STRATA),
    ] = None
    patient: Annotated[
        str | None,
        Flag(
            "Column of the case table that names the patient, where some have several cases.",
            STRATA,
            is_column=True,
        ),
    ] = None
    patient_score: Annotated[
        PatientScore,
        Flag("Score of a patient with several cases: their mean, or the worst of them.", STRATA),
    ] = PatientScore.MEAN
    nsd_tolerance_mm: Annotated[
        float, Flag("Tolerance of the normalised surface distance, in mm.", SCORES)
    ] = 1.0
    empty: Annotated[EmptyRule, Flag("Score of a label that one or both maps lack.", SCORES)] = (
        EmptyRule.UNDEFINED
    )
    missing: Annotated[
        MissingRule, Flag("A missing prediction: stop, or score as failed.", SCORES)
    ] = MissingRule.ERROR
    failure: Annotated[
        str | None, Flag("When a case has failed, such as hd95>20. Default: dice<0.5.", SCORES)
    ] = None
    instances: Annotated[
        Sequence[str],
        Flag(
            "Label to compare lesion by lesion, by components (repeatable); * for every label.",
            LESIONS,
        ),
    ] = ()
    match: Annotated[
        str | None,
        Flag(
            "How lesions are matched: iou:0.5 (one to one), overlap or brats:3. Default: iou:0.5.",
            LESIONS,
        ),
    ] = None
    connectivity: Annotated[
        int | None,
        Flag("Neighbours of a voxel that belong to its lesion: 6, 18 or 26. Default: 26.", LESIONS),
    ] = None
    lesions_above_mm3: Annotated[
        float | None,
        Flag("Count only lesions of the reference above this volume. Default: all.", LESIONS),
    ] = None
    requirements: Annotated[
        Sequence[str],
        Flag(
            'Requirement (repeatable): "pathology=spina_bifida label=cerebellum p5>=0.70".',
            REQUIREMENTS,
            "require",
        ),
    ] = ()
    n_resamples: Resamples = 2000
    seed: Seed = 0

    def __post_init__(self) -> None:
        normalise(self, "by", "metrics", "instances", "requirements")
        object.__setattr__(self, "empty", choice_of(EmptyRule, self.empty, name="empty"))
        object.__setattr__(self, "missing", choice_of(MissingRule, self.missing, name="missing"))
        score = choice_of(PatientScore, self.patient_score, name="patient_score")
        object.__setattr__(self, "patient_score", score)

    def check(self) -> None:
        """Check the values that have rules of their own."""
        from nnunet_dro.evaluation.scoring.metrics import BETTI_ERRORS

        _ = self.failed_if
        if self.patient_score == PatientScore.WORST and self.patient is None:
            raise ValueError(
                f"`patient_score` must come with the column of the patients, got "
                f"{self.patient_score.value!r} alone. Name the column with --patient, or leave it "
                "out."
            )
        without_worst = [name for name in self.metrics if name in BETTI_ERRORS]
        if self.missing == MissingRule.WORST and without_worst:
            raise ValueError(
                "`metrics` must have a worst value where missing predictions have it, got "
                f"{without_worst[0]!r} and --missing worst. Leave the metric out, or predict every "
                "case."
            )

    @property
    def scoring(self) -> "Scoring":
        """The metrics and how they are computed."""
        from nnunet_dro.evaluation.scoring.scoring import Scoring

        return Scoring(
            tuple(self.metrics),
            self.nsd_tolerance_mm,
            self.empty,
            self.lesions,
        )

    @property
    def lesions(self) -> "Instances | None":
        """The labels that are compared lesion by lesion, and how; None without any."""
        from nnunet_dro.evaluation.scoring.instances import Instances

        return Instances.of(
            self.instances,
            match=self.match,
            connectivity=self.connectivity,
            above_mm3=self.lesions_above_mm3,
        )

    @property
    def failed_if(self) -> "Failure":
        """When a case has failed."""
        from nnunet_dro.evaluation.scoring.failures import failure_of

        return failure_of(self.failure, self.scoring.metrics)


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(LockedEvaluation):
    """How predictions are evaluated.

    What `LockedEvaluation` has, and where files are and how fast it goes.

    Attributes:
        cases: The case table, with a row for every evaluated case. None takes ``cases.csv`` of the
            dataset of the references (see `case_table_of`) where ``by`` or ``patient`` names a
            column.
        dataset_json: The file that names labels and regions. None looks for it in and above the
            references; without one, each value in the references is a label.
        jobs: Number of cases to score at a time; None follows joblib's configuration (one at a time
            without any).
        workers: Address of a dask scheduler, whose workers must see the files under the same paths.
    """

    _FILES: ClassVar = ("cases", "images", "dataset_json")

    #: How lesions are compared; summary.json has these with the labels, under ``instances``.
    _OF_LESIONS: ClassVar = ("match", "connectivity", "lesions_above_mm3")

    #: What summary.json does not have: what does not change a number, and what it has elsewhere.
    _NOT_RECORDED: ClassVar = ("jobs", "workers", "method", "requirements", *_OF_LESIONS)

    cases: Annotated[
        Path | None, Flag("Case table (CSV, TSV, XLSX, JSON); default: cases.csv of the dataset.")
    ] = None
    images: Annotated[
        Path | None,
        Flag(
            "Folder of images (CASE_0000.nii.gz ..., or folders of DICOM series), for "
            "auto:contrast, auto:noise, auto:rarity and DICOM segmentations.",
            STRATA,
        ),
    ] = None
    dataset_json: Annotated[
        Path | None,
        Flag("dataset.json with the names of the labels; default: in or above REFERENCE.", SCORES),
    ] = None
    jobs: Annotated[
        int | None, Flag("Cases to score at a time; default: one per processor.", RUNNING, least=1)
    ] = None
    workers: Annotated[
        str | None,
        Flag(
            "Dask scheduler whose workers score the cases, such as tcp://scheduler:8786.", RUNNING
        ),
    ] = None
    method: Annotated[
        str | None, Flag("Name of the method in tables; default: taken from the path.", RUNNING)
    ] = None
    folds: Annotated[
        Sequence[str],
        Flag(
            "Folds of the model: -f 0 1 2; default: all with validation predictions.",
            MODEL,
            short="-f",
        ),
    ] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        normalise(self, "folds")
        for name in self._FILES:
            path = getattr(self, name)
            if path:
                object.__setattr__(self, name, Path(path))

    def record(self) -> dict[str, Any]:
        """The options for summary.json, with what defaults stand for.

        Those that do not change a number are left out.
        """
        recorded = {
            entry.field: entry.flag.value(getattr(self, entry.field))
            for entry in declared(EvaluateOptions).values()
            if entry.field not in self._NOT_RECORDED
        }
        for name in self._FILES:
            path = getattr(self, name)
            if path:
                recorded[name] = str(path)
        recorded["metrics"] = list(self.scoring.metrics)
        recorded["failure"] = str(self.failed_if)
        recorded["instances"] = self.lesions.about if self.lesions else None
        return recorded

    @classmethod
    def of(cls, recorded: Mapping[str, Any]) -> "EvaluateOptions":
        """From what `record` wrote.

        Of other software's files, and of other versions, not all options are known.
        """
        names = {field.name for field in fields(cls)}
        values: dict[str, Any] = {"metrics": ()}
        values |= {name: value for name, value in recorded.items() if name in names}

        lesions = values.get("instances") or {}
        values["instances"] = lesions.get("labels", ())
        values |= {name: lesions.get(name) for name in cls._OF_LESIONS}
        return cls(**values)


def normalise(options: Any, *names: str) -> None:
    """Turn sequences and single names of an instance's fields into tuples.

    Requirements that were parsed are turned into their texts.
    """
    for name in names:
        entries = getattr(options, name) or ()
        if isinstance(entries, str):
            entries = (entries,)
        texts = tuple(getattr(entry, "text", entry) for entry in entries)
        object.__setattr__(options, name, texts)
