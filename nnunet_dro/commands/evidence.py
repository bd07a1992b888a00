"""What `nnunet-dro report` does with an evidence pack: fill one, and check one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from nnunet_dro import __version__
from nnunet_dro.bad_input import InputError, bad_input
from nnunet_dro.commands.protocol_file import protocol_of
from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.comparing.options import SECTIONS
from nnunet_dro.evaluation.evaluating.other_tables import files_of_scores, read_scores
from nnunet_dro.evaluation.evaluating.read_results import read_comparison, read_evaluation
from nnunet_dro.evaluation.evaluating.result_files import (
    VIEWER_PAGE,
    comparison_files,
    evaluation_files,
)
from nnunet_dro.evaluation.inputs.flags import declared
from nnunet_dro.evaluation.inputs.options import EvaluateOptions
from nnunet_dro.evaluation.judging.verdict_files import VERDICT_FILES
from nnunet_dro.evaluation.report import comparison_reports, evaluation_reports
from nnunet_dro.evaluation.report.evidence import evidence_pack, pack_pages
from nnunet_dro.evaluation.report.gallery import GalleryEntry
from nnunet_dro.evaluation.report.manifest import MANIFEST, Manifest, check_manifest
from nnunet_dro.evaluation.report.recheck import (
    check_comparison,
    check_evaluation,
    says_the_same,
)
from nnunet_dro.evaluation.scoring.score_files import sha256_of
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.stratum_statistics import false_positives
from nnunet_dro.selfcheck import selfcheck

#: The folder of a pack that holds the comparison.
COMPARISON = "comparison"

#: The file of a pack that holds the protocol.
PROTOCOL = "protocol.toml"

#: The tables of a comparison beside comparison.csv, which is checked by itself.
_OF_COMPARISON = ("changed.csv", "failures.csv", "trainings.csv")

#: The page of an evaluation or a comparison.
_PAGE = "report.html"

#: What a page with pictures of cases has.
_HAS_PICTURES = '<div class="gallery'

_RESTORE = (
    "Restore the pack from where it is kept, write another, or verify it with the versions that "
    "its summary.json names."
)

#: What commands give, as errors name it.
_RESULTS = {"evaluate": "evaluation", "compare": "comparison"}


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
        raise InputError(
            "pack",
            must="be written by an installation that computes known numbers as expected",
            got=f"others: {record.verdict}",
            cure="Run `nnunet-dro selfcheck`, and install anew.",
        )

    records = {**others, "selfcheck.json": record.json_text()}
    records |= _protocol(evaluation.about, "evaluate")
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
    manifest = check_manifest(folder)
    evaluation = read_evaluation(folder)
    check_evaluation(evaluation)
    evaluation = replace(evaluation, false_positives=false_positives(evaluation.scores))
    pages = _pages(folder, evaluation, manifest)
    files = {**_protocol(evaluation.about, "evaluate"), **evaluation_files(evaluation), **pages}
    _check_files(folder, files, names=(PROTOCOL, "summary.json", *VERDICT_FILES, *pages))

    n_verdicts = len(evaluation.about["requirements"])
    checked = f"{len(manifest.sha256)} files as written; "
    checked += f"{n_verdicts} verdicts as scores.csv gives them"
    if (folder / COMPARISON).is_dir():
        n_compared = _check_comparison(folder / COMPARISON, evaluation, with_pages=bool(pages))
        checked += f", and {n_compared} of the comparison"
    lines = [f"{checked}."]
    if not pages:
        lines.append(f"Pages are not compared: they are of nnunet-dro {manifest.version}.")
    elif _PAGE not in pages:
        lines.append(f"{_PAGE} is not compared: it has pictures of cases.")
    return [*lines, f"SHA-256 of {MANIFEST}: {sha256_of(folder / MANIFEST)}"]


def _pages(folder: Path, evaluation: Evaluation, manifest: Manifest) -> dict[str, str]:
    """The pages of a pack, made anew from its evaluation; none of another version's pack.

    Without the page that has pictures of cases, if it has: they need the images.
    """
    if manifest.version != __version__:
        return {}
    names = manifest.sha256
    # That there are links is all that these pages tell of them.
    links = {("", ""): VIEWER_PAGE} if VIEWER_PAGE in names else {}
    pages = {
        **pack_pages(evaluation, links, records=names, time=manifest.time),
        **evaluation_reports(evaluation),
    }
    page = folder / _PAGE
    if page.is_file() and _HAS_PICTURES in _content(page):
        del pages[_PAGE]
    return pages


def _protocol(about: Mapping[str, Any], command: str) -> dict[str, str]:
    """The protocol that a result of ``command`` was made under, if any, checked against it."""
    locked = about.get("protocol")
    if locked is None:
        return {}
    if "content" not in locked:
        raise InputError(
            "evaluation",
            must="hold the protocol that it was made under",
            got="its hash only, as in version 0.3.0",
            cure="Evaluate again with this version of nnunet-dro.",
        )

    protocol = protocol_of(locked["content"], str(locked["file"]))
    if protocol.sha256 != locked["sha256"]:
        raise InputError(
            "protocol",
            must="be the one that was locked",
            got=f"{protocol.sha256} in place of {locked['sha256']}",
            cure="Restore summary.json, or evaluate again.",
        )

    _check_options(about, command, protocol.sections[command])
    texts = {entry["requirement"] for entry in about["requirements"]}
    others = sorted(texts ^ set(protocol.sections[command]["require"]))
    if others:
        raise InputError(
            _RESULTS[command],
            must="have the requirements of its protocol",
            got=f"others or not all: {others[0]!r}",
            cure=f"Restore summary.json, or {command} again with --protocol.",
        )
    return {PROTOCOL: locked["content"]}


def _check_options(about: Mapping[str, Any], command: str, locked: Mapping[str, Any]) -> None:
    """Check that a result says the options of its protocol, as far as it says them alike."""
    flags = declared(SECTIONS[command])
    values = {entry.field: locked[name] for name, entry in flags.items()}
    if command == "evaluate":
        values = EvaluateOptions(**values).record()

    for entry in flags.values():
        written = about["options"].get(entry.field, values.get(entry.field))
        if entry.field in values and written != values[entry.field]:
            raise InputError(
                _RESULTS[command],
                must="have the options of its protocol",
                got=f"{entry.field} {written!r} in place of {values[entry.field]!r}",
                cure=f"Restore summary.json, or {command} again with --protocol.",
            )


def _comparison(folder: Path, evaluation: Evaluation) -> dict[str, str]:
    """The files of a comparison of the evaluation, made anew from the scores, and those scores."""
    summary, table = read_comparison(folder)
    about = summary["about"]
    if "inputs" not in about:
        raise InputError(
            "comparison",
            must="say of what it is",
            got=f"{str(folder)!r}, of an earlier version",
            cure="Compare again with this version of nnunet-dro.",
        )

    scores = {}
    copies = {}
    for place, path in _scores_of(about).items():
        scores[place] = Path(path)
        for file in files_of_scores(scores[place]):
            copies[f"{COMPARISON}/{place}/{file.name}"] = _content(file)

    made_anew = _compared_anew(about, table, evaluation, scores, folder)
    comparison: Comparison = replace(made_anew, about=about, notes=tuple(summary["notes"]))
    files = {**comparison_files(comparison), **comparison_reports(comparison)}
    return {**{f"{COMPARISON}/{name}": text for name, text in files.items()}, **copies}


def _check_comparison(folder: Path, evaluation: Evaluation, *, with_pages: bool) -> int:
    """Check the comparison of a pack, and say how many verdicts it has."""
    summary, table = read_comparison(folder)
    about = summary["about"]
    scores = {}
    for place in _scores_of(about):
        files = [*(folder / place).glob("*")]
        if not files:
            raise FileNotFoundError(
                bad_input(
                    "comparison",
                    must="have its scores beside it",
                    got=f"none in {str(folder / place)!r}",
                    cure="Write the pack with this version of nnunet-dro.",
                )
            )
        # A table of other software is a single file.
        is_table = len(files) == 1 and files[0].name != "summary.json"
        scores[place] = files[0] if is_table else folder / place

    comparison = _compared_anew(about, table, evaluation, scores, folder)
    comparison = replace(comparison, about=about, notes=tuple(summary["notes"]))
    pages = comparison_reports(comparison) if with_pages else {}
    made_anew = {**comparison_files(comparison), **pages}
    _check_files(folder, made_anew, names=(*_OF_COMPARISON, *VERDICT_FILES, *pages))
    return len(about["requirements"])


def _check_files(folder: Path, files: Mapping[str, str], *, names: Sequence[str]) -> None:
    """Check that files of a folder say what they have to; that there is none that should not be."""
    for name in names:
        path = folder / name
        written = _content(path) if path.is_file() else None
        computed = files.get(name)
        if written is None or computed is None:
            agrees = written == computed
        else:
            agrees = says_the_same(written, computed)
        if not agrees:
            raise InputError(
                "evaluation",
                must="have the tables, verdicts, pages and protocol that follow from other files",
                got=f"others, or none, in {str(path)!r}",
                cure=_RESTORE,
            )


def _content(path: Path) -> str:
    """The text of a file, as `write_files` writes it."""
    return path.read_bytes().decode("utf-8", "surrogateescape")


def _scores_of(about: Mapping[str, Any]) -> dict[str, str]:
    """Where a pack has the scores of each training of a comparison, to where they came from.

    Methods and trainings are numbered: names of methods may be none of folders.
    """
    paths = {}
    for method, files in enumerate(about["inputs"]["files"].values(), 1):
        for training, file in enumerate(files, 1):
            paths[f"scores/{method}-{training}"] = file
    return paths


def _compared_anew(
    about: Mapping[str, Any],
    table: pd.DataFrame,
    evaluation: Evaluation,
    scores: Mapping[str, Path],
    folder: Path,
) -> Comparison:
    """A comparison in a folder, made anew from the scores of every training and checked."""
    trainings = [read_scores(path) for path in scores.values()]
    if _predictions(evaluation) not in map(_predictions, trainings):
        raise InputError(
            "comparison",
            must="be of the evaluation",
            got=f"one of other predictions in {str(folder)!r}",
            cure="Name a comparison of this evaluation, or leave it out.",
        )

    _protocol(about, "compare")
    evaluations = {}
    for method, files in about["inputs"]["files"].items():
        evaluations[method] = [trainings.pop(0) for _ in files]
    return check_comparison(about, table, evaluations)


def _predictions(evaluation: Evaluation) -> Any:
    """What tells whose predictions were evaluated: files, or nnU-Net's summary.json of them."""
    names = ("references_sha256", "predictions_sha256", "summary_json_sha256")
    return [evaluation.inputs.get(name) for name in names]
