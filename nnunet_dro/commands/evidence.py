"""What `nnunet-dro report` does with an evidence pack: fill one, and check one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nnunet_dro.commands.protocol_file import protocol_of
from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.other_tables import read_scores
from nnunet_dro.evaluation.report import comparison_reports
from nnunet_dro.evaluation.report.evidence import evidence_pack
from nnunet_dro.evaluation.report.gallery import GalleryEntry
from nnunet_dro.evaluation.report.manifest import MANIFEST, check_manifest
from nnunet_dro.evaluation.report.recheck import check_comparison, check_evaluation
from nnunet_dro.evaluation.result_files import (
    comparison_files,
    read_comparison,
    read_evaluation,
)
from nnunet_dro.evaluation.scoring.score_files import sha256_of
from nnunet_dro.selfcheck import selfcheck


def pack_files(
    evaluation: Evaluation,
    gallery: Sequence[GalleryEntry],
    links: Mapping[tuple[str, str], str],
    *,
    comparison: Path | None,
    others: Mapping[str, str],
) -> dict[str, str]:
    """The files of a pack: those of the evaluation, and what was recorded beside it.

    Args:
        evaluation: What to put on record.
        gallery: Pictures of the worst cases.
        links: Case and label to an address in the viewer.
        comparison: The output folder of a comparison of the evaluation; None for none.
        others: Further files, name to content.

    Raises:
        ValueError: If a file says something else than the scores do, the protocol is not the one
            that was locked, the comparison is of another evaluation, or this installation computes
            other numbers than those known by hand.
    """
    record = selfcheck()
    if not record.agrees:
        raise ValueError(
            "`pack` must be written by an installation that computes known numbers as expected, "
            f"got others: {record.lines()[-1]} Run `nnunet-dro selfcheck`, and install anew."
        )

    records = {**others, "selfcheck.json": record.json_text()}
    records |= _protocol(evaluation)
    if comparison is not None:
        records |= _comparison(comparison, evaluation)
    return evidence_pack(evaluation, gallery, links, records=records)


def verified(folder: Path) -> list[str]:
    """Check a pack, and say in lines what was checked.

    Raises:
        FileNotFoundError: If it has no manifest.
        ValueError: If a file was altered, is missing or was added since it was written, or the
            numbers and verdicts are not those that its scores give.
    """
    n_files = check_manifest(folder)
    evaluation = read_evaluation(folder)
    check_evaluation(evaluation)
    _protocol(evaluation)

    n_verdicts = len(evaluation.about["requirements"])
    return [
        f"{n_files} files as written; {n_verdicts} verdicts as scores.csv gives them.",
        f"SHA-256 of {MANIFEST}: {sha256_of(folder / MANIFEST)}",
    ]


def _protocol(evaluation: Evaluation) -> dict[str, str]:
    """The protocol that an evaluation was made under, if there is one, checked against it."""
    locked = evaluation.about.get("protocol")
    if locked is None:
        return {}
    if "content" not in locked:
        raise ValueError(
            "`evaluation` must hold the protocol that it was made under, got its hash only, as in "
            "version 0.3.0. Evaluate again with this version of nnunet-dro."
        )

    protocol = protocol_of(locked["content"], str(locked["file"]))
    if protocol.sha256 != locked["sha256"]:
        got = f"{protocol.sha256} in place of {locked['sha256']}"
        cure = "Restore summary.json, or evaluate again."
        raise ValueError(f"`protocol` must be the one that was locked, got {got}. {cure}")

    texts = dict.fromkeys(entry["requirement"] for entry in evaluation.about["requirements"])
    required = dict.fromkeys(protocol.evaluate["require"])
    if set(texts) != set(required):
        others = sorted(set(texts) ^ set(required))
        cure = "Restore summary.json, or evaluate again with --protocol."
        raise ValueError(
            "`evaluation` must have the requirements of its protocol, "
            f"got others or not all: {others[0]!r}. {cure}"
        )
    return {"protocol.toml": locked["content"]}


def _comparison(folder: Path, evaluation: Evaluation) -> dict[str, str]:
    """The files of a comparison of the evaluation, made anew from the scores."""
    summary, table = read_comparison(folder)
    about = summary["about"]
    if "inputs" not in about:
        raise ValueError(
            f"`comparison` must say of what it is, got {str(folder)!r}, of an earlier version. "
            "Compare again with this version of nnunet-dro."
        )

    evaluations = {}
    for name, folders in about["inputs"]["files"].items():
        evaluations[name] = [read_scores(Path(file)) for file in folders]
    sha256 = [_predictions(other) for trainings in evaluations.values() for other in trainings]
    if _predictions(evaluation) not in sha256:
        got = f"one of other predictions in {str(folder)!r}"
        cure = "Name a comparison of this evaluation, or leave it out."
        raise ValueError(f"`comparison` must be of the evaluation, got {got}. {cure}")

    made_anew = check_comparison(about, table, evaluations)
    comparison: Comparison = replace(made_anew, about=about, notes=tuple(summary["notes"]))
    files = {**comparison_files(comparison), **comparison_reports(comparison)}
    return {f"comparison/{name}": content for name, content in files.items()}


def _predictions(evaluation: Evaluation) -> Any:
    """What tells whose predictions were evaluated."""
    inputs = evaluation.about.get("inputs", {})
    return inputs.get("references_sha256"), inputs.get("predictions_sha256")
