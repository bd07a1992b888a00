"""Score the submissions of many teams, one after the other.

What is scored stays, and a later run goes on.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nnunet_dro import __version__
from nnunet_dro.bad_input import InputError, check_folder
from nnunet_dro.choices import InvalidRule
from nnunet_dro.evaluation.evaluating.evaluation import evaluate
from nnunet_dro.evaluation.evaluating.read_results import read_evaluation
from nnunet_dro.evaluation.evaluating.result_files import evaluation_files
from nnunet_dro.evaluation.inputs.folders import Inputs, find_inputs
from nnunet_dro.evaluation.inputs.options import EvaluateOptions
from nnunet_dro.evaluation.scoring.tiff import file_beside
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.files.output_folder import check_output, write_files
from nnunet_dro.naming import repeated
from nnunet_dro.nnunet.folders import find_dataset_json
from nnunet_dro.ranking.invalid_files import InvalidFilesError, find_invalid, invalid_of

#: The file in a team's evaluation that says of which files and options it is.
_SCORED = "scored.json"


#: Called with the number of finished cases and of all cases.
_Progress = Callable[[int, int], None]


def named_submissions(entries: Sequence[str]) -> dict[str, Path]:
    """Teams and the folders of their predictions, from ``TEAM=FOLDER`` or ``FOLDER``.

    A folder alone names the team.
    """
    submissions = []
    for entry in entries:
        name, separator, folder = entry.partition("=")
        # A folder may have a = in its name.
        if separator and not Path(entry).exists():
            submissions.append((name.strip(), Path(folder)))
        else:
            submissions.append((Path(entry).absolute().name, Path(entry)))

    for name, path in submissions:
        if not name or name in (".", "..") or "/" in name or "\\" in name:
            raise InputError(
                "team",
                must="be a name without slashes",
                got=f"{name!r} for {str(path)!r}",
                cure="Write TEAM=FOLDER.",
            )
        cure = "Give the folders of the predictions, one for each team."
        check_folder("submissions", path, cure, must="be folders")

    # Names that differ in case only would be one folder on some systems.
    twice = repeated(name.casefold() for name, _ in submissions)
    if twice:
        raise InputError(
            "submissions",
            must="have different names",
            got=f"{twice[0]!r} twice",
            cure="Write TEAM=FOLDER.",
        )
    return dict(submissions)


def score_submissions(
    reference: Path,
    submissions: Mapping[str, Path],
    folder: Path,
    options: EvaluateOptions,
    *,
    invalid: InvalidRule = InvalidRule.ERROR,
    progress: _Progress = lambda n_done, n_all: None,
) -> dict[str, Evaluation]:
    """Evaluate every submission into its folder below ``folder``, or read its evaluation there.

    An evaluation by this version whose options and files (by name, size and time of the last
    change) are still the same is not made again. Missing predictions, of all teams, are an error
    before anything is scored. ``invalid`` says what becomes of predictions that cannot be scored:
    an `InvalidFilesError` that has all of them, or the worst scores.
    """
    inputs = _inputs_of(reference, submissions, folder, options)
    n_all = sum(len(inputs_of_team.pairs) for inputs_of_team in inputs.values())
    n_done = 0
    evaluations: dict[str, Evaluation] = {}
    for team, submission in submissions.items():
        state = _state(reference, inputs[team], options)
        evaluation = _kept(folder / team, state, invalid)
        if evaluation is None:
            unscored = {team: inputs[team]}
            if invalid is InvalidRule.ERROR:
                unscored = {name: inputs[name] for name in inputs if name not in evaluations}
            score = partial(
                evaluate,
                reference,
                submission,
                options,
                n_resamples=0,
                method=team,
                progress=partial(_report, progress, n_done, n_all),
            )
            evaluation = _evaluated(score, team, unscored, options, invalid)
            # The first one is written last: a run that is killed leaves no state without the
            # evaluation it is of.
            files = {_SCORED: json.dumps(state, indent=1) + "\n", **evaluation_files(evaluation)}
            write_files(folder / team, files)

        evaluations[team] = evaluation
        n_done += len(inputs[team].pairs)
        progress(n_done, n_all)

    return evaluations


def _inputs_of(
    reference: Path, submissions: Mapping[str, Path], folder: Path, options: EvaluateOptions
) -> dict[str, Inputs]:
    """The files of every team; an error names all teams whose folders cannot be scored."""
    inputs = {}
    errors: dict[str, ValueError | OSError] = {}
    for team, submission in submissions.items():
        if not (folder / team / _SCORED).is_file():
            check_output(folder / team, overwrite=None, name="kept")
        try:
            inputs[team] = find_inputs(reference, submission, missing=options.missing)
        except (ValueError, OSError) as error:
            errors[team] = error

    if errors:
        first, *others = errors
        message = f"{errors[first]} The team is {first!r}."
        if others:
            message += f" There are such errors in {', '.join(others)}, too."
        kind = ValueError if isinstance(errors[first], ValueError) else type(errors[first])
        raise kind(message) from errors[first]
    return inputs


def _evaluated(
    score: Callable[..., Evaluation],
    team: str,
    unscored: Mapping[str, Inputs],
    options: EvaluateOptions,
    rule: InvalidRule,
) -> Evaluation:
    """The evaluation of a team; where it stops, for invalid files, as the rule has it.

    ``unscored`` are the files of all teams that are looked at then.
    """
    try:
        return score()
    except (ValueError, OSError) as error:
        invalid = find_invalid(unscored, options)
        if not invalid:
            raise
        if rule is InvalidRule.ERROR:
            raise InvalidFilesError(invalid) from error
        return score(invalid=invalid[team])


def _report(progress: _Progress, n_before: int, n_all: int, n_done: int, _: int) -> None:
    """Tell how many cases of all teams are finished, from how many of one team are."""
    progress(n_before + n_done, n_all)


def _state(reference: Path, inputs: Inputs, options: EvaluateOptions) -> dict[str, Any]:
    """What an evaluation depends on."""
    lines = []
    for pair in inputs.pairs:
        files = [path for path in (pair.reference, pair.prediction) if path]
        # The voxel size of a TIFF file is in another file.
        with_sizes = [*files, *filter(None, map(file_beside, files))]
        lines += [pair.case, *map(_stamp, with_sizes)]

    dataset_json = options.dataset_json or find_dataset_json(reference)
    lines += [_stamp(path) if path else "none" for path in (dataset_json, options.cases)]

    text = "\n".join(lines).encode("utf-8", errors="surrogateescape")
    digest = hashlib.sha256(text).hexdigest()
    return {"version": __version__, "options": options.record(), "files": digest}


def _stamp(path: Path) -> str:
    if not path.is_file():
        # The evaluation says what is wrong.
        return f"{path} is not there"
    status = path.stat()
    return f"{path.absolute()} {status.st_size} {status.st_mtime_ns}"


def _kept(folder: Path, state: Mapping[str, Any], rule: InvalidRule) -> Evaluation | None:
    """The evaluation of an earlier run, if it is of the same files and options.

    None where predictions that cannot be scored count as failed in it, and are an error now.
    """
    try:
        scored = json.loads((folder / _SCORED).read_text(encoding="utf-8"))
        if scored != state:
            return None
        evaluation = read_evaluation(folder)
    except (OSError, ValueError):
        return None
    is_refused = rule is InvalidRule.ERROR and invalid_of(evaluation)
    return None if is_refused else evaluation
