"""Score the submissions of many teams, one after the other.

What is scored stays, and a later run goes on.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nnunet_dro.evaluation.evaluation import evaluate
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.inputs import Inputs, find_inputs
from nnunet_dro.evaluation.options import EvaluateOptions
from nnunet_dro.evaluation.result_files import evaluation_files, read_evaluation
from nnunet_dro.files.output_folder import check_output, write_files
from nnunet_dro.naming import repeated
from nnunet_dro.nnunet.folders import find_dataset_json

_SCORED = (
    "scored.json"  # The file in a team's evaluation that says of which files and options it is.
)


def named_submissions(entries: Sequence[str]) -> dict[str, Path]:
    """Teams and the folders of their predictions, from ``TEAM=FOLDER`` or ``FOLDER``, which names the team."""
    found = []
    for entry in entries:
        # A folder may have a = in its name.
        name, separator, folder = ("", "", entry) if Path(entry).exists() else entry.partition("=")
        path = Path(folder if separator else entry)
        found.append((name.strip() if separator else path.absolute().name, path))
    for name, path in found:
        if not name or name in (".", "..") or "/" in name or "\\" in name:
            rule = "be a name without slashes"
            raise ValueError(
                f"`team` must {rule}, got {name!r} for {str(path)!r}. Write TEAM=FOLDER."
            )
        if not path.is_dir():
            cure = "Give the folders of the predictions, one for each team."
            raise NotADirectoryError(f"`submissions` must be folders, got {str(path)!r}. {cure}")
    # Names that differ in case only would be one folder on some systems.
    if twice := repeated(name.casefold() for name, _ in found):
        raise ValueError(
            f"`submissions` must have different names, got {twice[0]!r} twice. Write TEAM=FOLDER."
        )
    return dict(found)


def score_submissions(
    reference: Path,
    submissions: Mapping[str, Path],
    folder: Path,
    options: EvaluateOptions,
    *,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
) -> dict[str, Evaluation]:
    """Evaluate every submission, or read it where options and files are the same.

    All must be complete.
    """
    inputs = {}
    for team, submission in submissions.items():
        if not (folder / team / _SCORED).is_file():
            check_output(folder / team, overwrite=None, name="kept")
        try:
            inputs[team] = find_inputs(reference, submission, missing=options.missing)
        except (ValueError, OSError) as error:
            raise type(error)(f"{error} The team is {team!r}.") from error
    n_all = sum(len(of_team.pairs) for of_team in inputs.values())
    n_done = 0
    evaluations = {}
    for team, submission in submissions.items():
        state = _state(reference, inputs[team], options)
        kept = _kept(folder / team, state)
        if kept is None:

            def report(n: int, _: int, before: int = n_done) -> None:
                progress(before + n, n_all)

            kept = evaluate(
                reference, submission, options, n_resamples=0, method=team, progress=report
            )
            # The first one is written last: a run that is killed leaves no state without the
            # evaluation it is of.
            write_files(
                folder / team,
                {_SCORED: json.dumps(state, indent=1) + "\n", **evaluation_files(kept)},
            )
        evaluations[team] = kept
        n_done += len(inputs[team].pairs)
        progress(n_done, n_all)
    return evaluations


def _state(reference: Path, inputs: Inputs, options: EvaluateOptions) -> dict[str, Any]:
    """What an evaluation depends on."""
    lines = []
    for pair in inputs.pairs:
        lines += [
            pair.case,
            _stamp(pair.reference),
            _stamp(pair.prediction) if pair.prediction else "missing",
        ]
    dataset_json = options.dataset_json or find_dataset_json(reference)
    lines += [_stamp(path) if path else "none" for path in (dataset_json, options.cases)]
    digest = hashlib.sha256("\n".join(lines).encode("utf-8", errors="surrogateescape")).hexdigest()
    return {"options": options.record(), "files": digest}


def _stamp(path: Path) -> str:
    if not path.is_file():
        # The evaluation says what is wrong.
        return f"{path} is not there"
    status = path.stat()
    return f"{path.absolute()} {status.st_size} {status.st_mtime_ns}"


def _kept(folder: Path, state: Mapping[str, Any]) -> Evaluation | None:
    """The evaluation of an earlier run, if it is of the same files and options."""
    try:
        found = json.loads((folder / _SCORED).read_text(encoding="utf-8"))
        return read_evaluation(folder) if found == state else None
    except (OSError, ValueError):
        return None
