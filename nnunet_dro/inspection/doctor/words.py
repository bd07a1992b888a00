"""The answer in sentences: the finding, and what it rests on."""

from nnunet_dro.evaluation.scoring.absent_labels import note_on_absent_labels
from nnunet_dro.inspection.doctor import rules
from nnunet_dro.inspection.doctor.answer import Answer
from nnunet_dro.inspection.doctor.columns import VOXELS
from nnunet_dro.inspection.doctor.comparisons import BEHIND, LOWER, Comparison, State, Stratum
from nnunet_dro.inspection.doctor.rules import Diagnosis, Finding
from nnunet_dro.naming import count, name_some, share, written

#: A finding as a heading.
_HEADINGS = {
    Finding.NOTHING_FAILS: "Nothing fails",
    Finding.HARD: "Hard to learn, still losing on training cases",
    Finding.SMALL_OR_FAINT: "What is hard is small or faint",
    Finding.NOT_CARRIED_OVER: "Learnt, but not carried over",
    Finding.OUTLIERS: "A few outliers",
    Finding.CANNOT_TELL: "Cannot tell",
}

#: Iterations of nnU-Net's own trainings.
_USUAL_ITERATIONS = 250_000


def heading(answer: Answer) -> str:
    """The finding as a heading; what cannot be told has its reason with it."""
    finding = answer.diagnosis.finding
    if finding == Finding.CANNOT_TELL:
        reason, _ = cannot_tell(answer)
        return f"{_HEADINGS[finding]}{reason}"
    return _HEADINGS[finding]


def cannot_tell(answer: Answer) -> tuple[str, str]:
    """Why nothing can be told, for the heading, and what to do about it."""
    diagnosis = answer.diagnosis
    reason = ", too few cases"
    cure = "Collect more cases, or look at all folds: each validates other cases."

    if not answer.has_predictions:
        reason = " without predictions"
        cure = "Run the command again without --no-prediction, with another folder for --output."
    elif diagnosis.is_untrained:
        cure = "Train longer, or check the data, before anything else."
        if diagnosis.n_training >= rules.FEWEST_CASES:
            reason = ": nothing is learnt yet"
    elif _is_unfinished(answer):
        reason = ": the training is short" if diagnosis.is_short else ": little is learnt yet"
        cure = "Train longer, and run this command again: what is hard now may still be learnt."

    return reason, cure


def why(answer: Answer) -> list[str]:
    """What the finding rests on."""
    diagnosis = answer.diagnosis
    if not answer.has_predictions:
        return ["The cases were not predicted, and the rules compare the Dice of full predictions."]

    sentences = []
    if diagnosis.n_training < rules.FEWEST_CASES:
        sentences.append(
            f"The training has {count(diagnosis.n_training, 'case')}. With fewer than "
            f"{rules.FEWEST_CASES}, a group that is behind cannot be told from chance."
        )
    if diagnosis.is_untrained:
        sentences.append(
            "No label has a median Dice of 10 or more on the training cases themselves."
        )
    # What decides comes first.
    if diagnosis.finding == Finding.OUTLIERS:
        sentences += [*_single_cases(diagnosis), *_groups_behind(diagnosis)]
    else:
        sentences += [*_groups_behind(diagnosis), *_single_cases(diagnosis)]

    if diagnosis.finding == Finding.SMALL_OR_FAINT:
        sentences += _explained(diagnosis)
    if diagnosis.finding == Finding.CANNOT_TELL:
        sentences += _suspicions(diagnosis)
        if _is_unfinished(answer):
            sentences += _unfinished(answer)
    if diagnosis.finding == Finding.NOTHING_FAILS:
        sentences.append(_nothing(diagnosis))
    return sentences


def _groups_behind(diagnosis: Diagnosis) -> list[str]:
    """The strata that are behind, on training cases first."""
    sentences = []
    for stratum in diagnosis.those(State.BEHIND):
        compared = stratum.training
        if compared is not None:
            sentences.append(
                f"The stratum {title(stratum)} is behind on the "
                f"{count(stratum.n_training, 'case')} of it that the network was trained on: mean "
                f"Dice of {compared.label} {points(compared.mean)}, others "
                f"{points(compared.others)}."
            )

    for stratum in diagnosis.those(State.NOT_CARRIED_OVER):
        compared = stratum.validation
        if compared is not None:
            sentences.append(
                f"{capitalised(stratum)}: {count(stratum.n_validation, 'validation case')} with a "
                f"mean Dice of {compared.label} of {points(compared.mean)}, where training cases "
                f"have {points(compared.others)}."
            )
    return sentences


def _single_cases(diagnosis: Diagnosis) -> list[str]:
    """A sentence on the outliers, if there are any."""
    cases = [outlier.case for outlier in diagnosis.outliers]
    if not cases:
        return []
    are = "is" if len(cases) == 1 else "are"
    return [
        f"{count(len(cases), 'training case')} {are} far below the others, and no stratum explains "
        f"it: {name_some(cases)}."
    ]


def _explained(diagnosis: Diagnosis) -> list[str]:
    """A sentence on what size and contrast explain."""
    explanation = diagnosis.explanation
    if explanation is None:
        return []
    return [
        f"Size and contrast of {explanation.label} explain {share(explanation.share)} of how its "
        f"Dice differs among the training cases: {points(explanation.low)} in the half that is "
        f"smaller or fainter, {points(explanation.high)} in the other. Beyond that, no stratum is "
        "behind."
    ]


def _suspicions(diagnosis: Diagnosis) -> list[str]:
    """The strata that may be behind."""
    sentences = []
    for stratum in diagnosis.those(State.SUSPICION):
        compared, _ = _clearest(stratum, BEHIND)
        sentences.append(
            f"{capitalised(stratum)} may be behind: {count(compared.n, 'case')} with a mean Dice "
            f"of {compared.label} of {points(compared.mean)}, others {points(compared.others)}. "
            "That many comparisons make such a difference by chance."
        )
    return sentences


def _nothing(diagnosis: Diagnosis) -> str:
    """That nothing fails, and which strata are lower by less."""
    n_strata = sum(bool(stratum.column) for stratum in diagnosis.strata)
    whom = f"None of {count(n_strata, 'stratum')}" if n_strata else "No group of cases"
    text = (
        f"{whom} is {100 * BEHIND:.0f} points of Dice or more below the others, beyond what chance "
        "explains."
    )

    lower = []
    for stratum in diagnosis.those(State.LOWER):
        if stratum.column:
            compared, kind = _clearest(stratum, LOWER)
            lower.append(
                f"{title(stratum)}, {kind} cases, mean Dice of {compared.label} "
                f"{points(compared.mean)}, where other training cases have "
                f"{points(compared.others)} (p {probability(compared)})"
            )
    return f"{text} Lower by less: {'; '.join(lower)}." if lower else text


def notes(answer: Answer) -> list[str]:
    """What a reader has to know."""
    diagnosis = answer.diagnosis
    sentences = []
    if not answer.strata_from:
        sentences.append(
            "There is no cases.csv: who is hard is looked at case by case, not by stratum."
        )
    elif not answer.by:
        sentences.append(
            "No column of cases.csv divides the cases into strata. Name one with --by."
        )
    # Where the training is not finished, that is what the finding rests on.
    unfinished = _unfinished(answer)
    if unfinished and answer.has_predictions and not _is_unfinished(answer):
        moved = "Robust training moves effort between cases; it does not replace a longer training."
        sentences.append(" ".join([*unfinished, moved]))
    sentences += _absent_labels(answer)

    lonely = diagnosis.those(State.TOO_FEW)
    if lonely:
        sentences.append(
            f"Lower by {100 * BEHIND:.0f} points or more, but of too few cases to tell: "
            f"{name_some([title(stratum) for stratum in lonely])}."
        )
    unseen = [
        title(stratum)
        for stratum in diagnosis.strata
        if stratum.column and stratum.n_training and not stratum.n_validation
    ]
    if unseen and diagnosis.finding in (Finding.NOTHING_FAILS, Finding.NOT_CARRIED_OVER):
        sentences.append(
            f"This fold has no validation case of {name_some(unseen)}: whether they are carried "
            "over is unknown."
        )
    return sentences


def _absent_labels(answer: Answer) -> list[str]:
    """A note on labels that some of the cases lack."""
    voxels = answer.cases.set_index("case").filter(regex=f"^{VOXELS}")
    by_label = voxels.rename(columns=lambda name: name.removeprefix(VOXELS))
    return note_on_absent_labels(by_label.to_dict("index"))


def title(stratum: Stratum) -> str:
    """Name of a stratum with its column."""
    return f"{stratum.name} ({stratum.column})" if stratum.column else "all cases"


def capitalised(stratum: Stratum) -> str:
    """Name of a stratum at the beginning of a sentence."""
    return f"The stratum {title(stratum)}" if stratum.column else "All cases"


def probability(comparison: Comparison) -> str:
    """The probability of a comparison, as a number or as a limit."""
    p = comparison.probability
    return f"{p:.2g}" if p >= 1e-4 else "below 0.0001"


def points(dice: float) -> str:
    """A Dice in per cent."""
    return written(100 * dice, ".0f")


def _is_unfinished(answer: Answer) -> bool:
    """Whether nothing can be told only because the training is short or its Dice is low."""
    diagnosis = answer.diagnosis
    is_told = diagnosis.finding != Finding.CANNOT_TELL or bool(diagnosis.those(State.SUSPICION))
    could_tell = diagnosis.n_training >= rules.FEWEST_CASES and not diagnosis.is_untrained
    return answer.has_predictions and could_tell and not is_told


def _unfinished(answer: Answer) -> list[str]:
    """Sentences on a training that is short, and on labels of a low Dice."""
    sentences = []
    if answer.diagnosis.is_short:
        sentences.append(
            f"The training is short: {count(answer.n_iterations, 'iteration')}, fewer than "
            f"{rules.FEWEST_ITERATIONS:,}; nnU-Net's own has {_USUAL_ITERATIONS:,}."
        )

    low = answer.diagnosis.low
    if low:
        listed = ", ".join(f"{label} {points(dice)}" for label, dice in low.items())
        sentences.append(
            f"The median Dice of training cases is low ({listed}): the training is short or the "
            "labels are hard."
        )
    return sentences


def _clearest(stratum: Stratum, difference: float) -> tuple[Comparison, str]:
    """The comparison that chance explains least, and of which cases it is.

    It is one of those with at least this difference.
    """
    large = []
    for compared, kind in ((stratum.training, "training"), (stratum.validation, "validation")):
        if compared is not None and compared.difference >= difference:
            large.append((compared, kind))
    return min(large, key=lambda pair: pair[0].probability)
