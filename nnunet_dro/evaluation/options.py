"""The options that an evaluation was made with, as its summary.json keeps them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from nnunet_dro.choices import EmptyRule, MissingRule
from nnunet_dro.evaluation.scoring.failures import DEFAULT_FAILURE


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """The options of `evaluate` as texts and numbers, paths included; see there.

    The defaults stand for what an evaluation does not record, because it is of an earlier version or was made from
    other software's files.
    """

    reference: str = ""
    prediction: str = ""
    dataset_json: str | None = None
    cases: str | None = None
    images: str | None = None
    by: Sequence[str] = ()
    overall: bool = False
    reference_stratum: str | None = None
    patient: str | None = None
    metrics: Sequence[str] = ()
    nsd_tolerance_mm: float = 1.0
    empty: str = EmptyRule.UNDEFINED.value
    instances: Mapping[str, Any] | None = None
    missing: str = MissingRule.ERROR.value
    failure: str = DEFAULT_FAILURE
    n_resamples: int = 2000
    seed: int = 0

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> "EvaluationOptions":
        """Those in what summary.json says of a run."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in about.get("options", {}).items() if name in known})

    def record(self) -> dict[str, Any]:
        """The options for summary.json."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
