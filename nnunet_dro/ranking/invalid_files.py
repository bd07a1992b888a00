"""Predictions that cannot be scored: all of them at once, each with the reason."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pandas as pd

from nnunet_dro.evaluation.evaluating.evaluation import labels_to_score
from nnunet_dro.evaluation.inputs.folders import Inputs
from nnunet_dro.evaluation.inputs.options import EvaluateOptions
from nnunet_dro.evaluation.scoring.cluster import absolute, each_done
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.evaluation.scoring.score_files import PairOfFiles, score_pair
from nnunet_dro.evaluation.scoring.scoring import Scoring
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.naming import count, name_some
from nnunet_dro.nnunet.folders import find_dataset_json

#: The columns of `invalid_table`.
INVALID_COLUMNS = ("team", "case", "reason")


class InvalidFilesError(ValueError):
    """There are predictions that cannot be scored.

    Attributes:
        invalid: Team to its cases, each with the reason.
    """

    def __init__(self, invalid: Mapping[str, Mapping[str, str]]) -> None:
        self.invalid = invalid
        n_files = sum(len(cases) for cases in invalid.values())
        names = []
        for team, cases in invalid.items():
            names += [f"{team}: {case}" for case in cases]
        super().__init__(
            "`submissions` must hold predictions that can be scored, "
            f"got {count(n_files, 'invalid file')} ({name_some(names)}). "
            "Have them corrected, or give --invalid worst to score them as failed."
        )


def find_invalid(
    inputs: Mapping[str, Inputs], options: EvaluateOptions
) -> dict[str, dict[str, str]]:
    """Why predictions cannot be scored, by team and case; only what is invalid is there.

    An error in a reference is raised: it is no team's fault.
    """
    invalid = {}
    for team, inputs_of_team in inputs.items():
        references = {pair.case: pair.reference for pair in inputs_of_team.pairs}
        folder = inputs_of_team.pairs[0].reference.parent
        dataset_json = options.dataset_json or find_dataset_json(folder)
        labels = labels_to_score(replace(options, dataset_json=dataset_json), references)

        pairs = [pair for pair in inputs_of_team.pairs if pair.prediction]
        if options.workers:
            pairs = [absolute(pair) for pair in pairs]
        reasons = each_done(
            partial(_reason, labels=labels),
            pairs,
            jobs=options.jobs,
            workers=options.workers,
        )
        cases = {case: reason for case, reason in reasons if reason}
        if cases:
            invalid[team] = dict(sorted(cases.items()))
    return invalid


def _reason(pair: PairOfFiles, labels: Labels | None) -> tuple[str, str]:
    """A case, and why its prediction cannot be scored; empty where it can."""
    score_pair(replace(pair, prediction=None), labels, Scoring())
    try:
        score_pair(pair, labels, Scoring())
    except (ValueError, OSError) as error:
        return pair.case, " ".join(str(error).split())
    return pair.case, ""


def invalid_of(evaluation: Evaluation) -> Mapping[str, str]:
    """The cases whose prediction was invalid and is scored as failed, with the reason."""
    reasons: Mapping[str, str] = evaluation.inputs.get("invalid_predictions", {})
    return reasons


def invalid_table(evaluations: Mapping[str, Evaluation], *, aggregate_only: bool) -> pd.DataFrame:
    """A row per invalid prediction, with `INVALID_COLUMNS`.

    With ``aggregate_only`` a row per team that has any, with their number ``n``.
    """
    rows = []
    for team, evaluation in evaluations.items():
        rows += [(team, case, reason) for case, reason in invalid_of(evaluation).items()]

    table = pd.DataFrame(rows, columns=list(INVALID_COLUMNS))
    if aggregate_only:
        return table.groupby("team", sort=False).size().reset_index(name="n")
    return table
