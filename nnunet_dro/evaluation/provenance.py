"""What summary.json says of a run, so that its numbers can be understood and made again."""

import hashlib
import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

from nnunet_dro import __version__
from nnunet_dro.choices import EmptyRule
from nnunet_dro.evaluation.inputs import Inputs
from nnunet_dro.evaluation.scoring.metrics import METRICS, in_pixels
from nnunet_dro.evaluation.scoring.score_arrays import Scoring
from nnunet_dro.evaluation.scoring.score_files import ScoredPairs

#: What the statistics of a stratum are.
_DEFINITIONS = {
    "mean": "mean of the cases with a value",
    "std": "sample standard deviation (n - 1)",
    "percentiles": "linear interpolation between order statistics; p5 is the value that 5 % of the cases lie below",
    "iqr": "p75 - p25",
    "interval": "95 % interval, from six values on. Percentiles: exact order statistics. iqr: the bounds of p75 and "
    "p25. Mean: Student's t, corrected for skewness",
    "guaranteed": "mean_low_guaranteed and mean_high_guaranteed, of fractions: random weights on the cases and on one "
    "more case that is as bad or as good as can be; each holds with 97.5 %. failure_high: exact, with 95 % "
    "(Clopper-Pearson)",
}

#: How a label is scored that reference or prediction lacks.
_EMPTY = {
    EmptyRule.UNDEFINED: "a label in neither reference nor prediction has no value and is left out; one in only one of "
    "the two has Dice 0 and no distance",
    EmptyRule.ONE: "a label in neither reference nor prediction has Dice 1 and distance 0; one in only one of the two "
    "has Dice 0 and no distance",
    EmptyRule.BRATS: "a label in neither reference nor prediction has Dice 1 and distance 0; one in only one of the "
    "two has Dice 0 and distance 374 mm",
    EmptyRule.DIAGONAL: "a label in neither reference nor prediction has no value and is left out; one in only one of "
    "the two has Dice 0 and the length of the image's diagonal as distance",
}


def about_evaluation(
    options: Mapping[str, Any],
    scoring: Scoring,
    inputs: Inputs,
    scored: ScoredPairs,
    *,
    sha256_of_files: Mapping[str, str],
) -> dict[str, Any]:
    """What is said of an evaluation."""
    definitions = {metric: METRICS[metric].definition for metric in scoring.metrics}
    unit = METRICS["hd95"].measured(pixels=in_pixels(scored.table)).unit
    for metric in ("nsd", "lesion_nsd"):
        if metric in scoring.metrics:
            definitions[metric] += f"; tolerance {scoring.nsd_tolerance_mm:g} {unit}"
    of_lesions = {"lesions": scoring.instances.definition} if scoring.instances else {}
    files = {
        pair.case: [str(path.absolute()) if path else "" for path in (pair.reference, pair.prediction)]
        for pair in inputs.pairs
    }
    return {
        "versions": versions(
            *("numpy", "pandas", "scipy", "SimpleITK"), *(["connected-components-3d"] if scoring.instances else [])
        ),
        "options": dict(options),
        "definitions": definitions | of_lesions | _DEFINITIONS | {"empty": _EMPTY[EmptyRule(scoring.empty)]},
        "inputs": {
            "n_cases": len(inputs.pairs),
            "missing_predictions": inputs.missing,
            "references_without_prediction": list(inputs.lacking),
            "reference_names_sha256": _digest(pair.reference.name for pair in inputs.pairs),
            "prediction_names_sha256": _digest(pair.prediction.name for pair in inputs.pairs if pair.prediction),
            # Of a list with a line per case, so that one number stands for all files.
            "references_sha256": _digest(f"{c} {reference}" for c, (reference, _) in scored.sha256.items()),
            "predictions_sha256": _digest(f"{c} {prediction}" for c, (_, prediction) in scored.sha256.items()),
            **{f"{name}_sha256": digest for name, digest in sha256_of_files.items()},
            "files": files,
            "files_sha256": {case: list(digests) for case, digests in scored.sha256.items()},
        },
    }


def versions(*packages: str) -> dict[str, str]:
    """The versions of this package, of Python and of some other packages."""
    own = {"nnunet-dro": __version__, "python": platform.python_version()}
    return own | {package: version(package) for package in packages}


def _digest(names: Iterable[str]) -> str:
    """SHA-256 of lines, in the order of the cases; empty without any."""
    text = "\n".join(names).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest() if text else ""
