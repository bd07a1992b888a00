"""The answer in sentences: what to do next."""

import math
import shlex

from nnunet_dro.inspection.doctor.answer import Answer
from nnunet_dro.inspection.doctor.comparisons import State, Stratum
from nnunet_dro.inspection.doctor.rules import Finding
from nnunet_dro.inspection.doctor.words import cannot_tell, capitalised, title
from nnunet_dro.naming import share

#: What to do next where that is always the same.
_ADVICE = {
    Finding.SMALL_OR_FAINT: (
        "Drawing hard cases more often would rather harm: the small and faint ones do not get "
        "better by it, and it takes draws from cases that teach. nnUNetTrainerDRO draws nearly "
        "uniformly while next to nothing is found of them, and gains nothing. If a group of cases "
        "matters to you, nnUNetTrainerIW_<column> draws every group equally often."
    ),
    Finding.NOT_CARRIED_OVER: (
        "The network has learnt its training cases, and hardness weighted sampling would not draw "
        "those that it will fail on. More cases like them, stronger augmentation or folds that "
        "hold every stratum can help."
    ),
}

#: Below this ratio of the share of the draws to the share of the cases, hardness hardly finds a
#: stratum.
_BLIND = 1.5


def advice(answer: Answer) -> list[str]:
    """What to do next."""
    finding = answer.diagnosis.finding
    if finding == Finding.HARD:
        return _robust_training(answer)
    if finding == Finding.OUTLIERS:
        return _look_first(answer)
    if finding == Finding.NOTHING_FAILS:
        is_lower = any(stratum.column for stratum in answer.diagnosis.those(State.LOWER))
        gain = "little" if is_lower else "nothing"
        return [f"Robust training has {gain} to gain here. Plain training can stay as it is."]
    if finding == Finding.CANNOT_TELL:
        _, cure = cannot_tell(answer)
        return [cure]
    return [_ADVICE[finding]]


def _robust_training(answer: Answer) -> list[str]:
    """What to do where robust training may help."""
    behind = answer.diagnosis.those(State.BEHIND)
    if answer.would_draw_uniformly:
        columns = dict.fromkeys(stratum.column for stratum in behind)
        return [
            f"{answer.trainer} would draw uniformly from this network, because next to nothing is "
            "found of the hardest cases, and gain nothing while that is so. Look at them first: "
            "they may be too small or faint to be learnt, or wrongly labelled. If they are "
            "neither, nnUNetTrainerDRO_share0.5 draws them more often all the same.",
            *(f"nnUNetTrainerIW_{column} draws every group equally often." for column in columns),
        ]
    if answer.fold.trainer == answer.trainer:
        return [
            f"This is {answer.trainer} already. Look at the hardest cases, or tell a training who "
            "they are: nnUNetTrainerIW_<column>, which draws every group equally often."
        ]

    worth = f"Robust training is worth a try: {answer.trainer}."
    if answer.draws is not None:
        worth += (
            f" From this network, its draws would be spread over {answer.draws.effective:.0f} "
            f"effective cases of {answer.diagnosis.n_training}."
        )
    sentences = [worth]
    for stratum in behind:
        sentences += _draws_of(answer, stratum)

    if answer.diagnosis.outliers:
        cases, draws = _share_of_outliers(answer)
        if draws >= _BLIND * cases:
            sentences.append(
                f"Look at the outliers first: up to {share(draws)} of the draws would go to them."
            )
    return sentences


def _draws_of(answer: Answer, stratum: Stratum) -> list[str]:
    """How often the cases of a stratum would be drawn, and what to do if that is seldom."""
    sentences = []
    cases, draws = answer.share(answer.members(stratum))
    if not math.isnan(draws):
        sentences.append(
            f"{capitalised(stratum)} gets {share(draws)} of these draws, with {share(cases)} of "
            "the cases."
        )
    if draws < _BLIND * cases:
        sentences.append(
            f"Losses of patches hardly show that {title(stratum)} is hard. Tell the training who "
            f"it is: nnUNetTrainerIW_{stratum.column} draws every group equally often."
        )
    return sentences


def _look_first(answer: Answer) -> list[str]:
    """What to do about outliers."""
    sentences = [
        "Look at these cases before any robust training: most of its rules look at wrong labels "
        "most."
    ]
    _, draws = _share_of_outliers(answer)
    if not math.isnan(draws):
        sentences.append(f"Up to {share(draws)} of the draws of {answer.trainer} would go to them.")
    sentences.append(
        "If their labels are right, they are hard cases: add a column to cases.csv that says what "
        "they have in common, and run this command again."
    )
    return sentences


def _share_of_outliers(answer: Answer) -> tuple[float, float]:
    """Share of the outliers among the training cases, and of the draws (NaN without losses)."""
    return answer.share([outlier.case for outlier in answer.diagnosis.outliers])


def command(answer: Answer) -> str:
    """The command to run next; empty if there is none."""
    fold = answer.fold
    finding = answer.diagnosis.finding
    is_hard = finding == Finding.HARD

    if finding == Finding.OUTLIERS or (is_hard and answer.would_draw_uniformly):
        folder = shlex.quote(str(fold.folder))
        return f"nnunet-dro suspects {folder}" if answer.has_hardness_log else ""
    if is_hard and fold.trainer != answer.trainer:
        plans = "" if fold.plans == "nnUNetPlans" else f" -p {fold.plans}"
        return (
            f"nnUNetv2_train {fold.dataset} {fold.configuration} {fold.number} "
            f"-tr {answer.trainer}{plans}"
        )
    return ""
