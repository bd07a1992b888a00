"""The answer in sentences, for the page and for the terminal."""

import shlex

from rich.console import RenderableType

from nnunet_dro.doctor import rules
from nnunet_dro.doctor.answer import Answer, duration
from nnunet_dro.doctor.rules import Comparison, Diagnosis, Finding, State, Stratum
from nnunet_dro.evaluation.scoring.label_maps import note_on_absent_labels
from nnunet_dro.naming import count, name_some, share, written
from nnunet_dro.pages.document import Block, Heading, Note, Prose
from nnunet_dro.pages.terminal import printed

#: A finding as a heading, and what to do next where that is always the same.
_WORDS = {
    Finding.NOTHING_FAILS: ("Nothing fails", ""),
    Finding.HARD: ("Hard to learn, still losing on training cases", ""),
    Finding.SMALL_OR_FAINT: (
        "What is hard is small or faint",
        "Drawing hard cases more often would rather harm: the small and faint ones do not get better by it, and it "
        "takes draws from cases that teach. nnUNetTrainerDRO draws nearly uniformly while next to nothing is found of "
        "them, and gains nothing. If a group of cases matters to you, nnUNetTrainerIW_<column> draws every group "
        "equally often.",
    ),
    Finding.NOT_CARRIED_OVER: (
        "Learnt, but not carried over",
        "The network has learnt its training cases, and hardness weighted sampling would not draw those that it "
        "will fail on. More cases like them, stronger augmentation or folds that hold every stratum can help.",
    ),
    Finding.OUTLIERS: ("A few outliers", ""),
    Finding.CANNOT_TELL: ("Cannot tell", ""),
}

_USUAL_ITERATIONS = 250_000  # Iterations of nnU-Net's own trainings.
_BLIND = 1.5  # Below this ratio of the share of the draws to the share of the cases, hardness hardly finds a stratum.


def answer_lines(answer: Answer) -> RenderableType:
    """The finding, what it rests on, and what to do, for rich's console.

    Names from files are shown as they are.
    """
    first, *others = advice(answer)
    blocks: list[Block] = [
        Heading(heading(answer)),
        Prose(why(answer)),
        Prose(first, kind="first"),
        Prose(others),
    ]
    if shown := command(answer):
        blocks.append(Prose(shown, kind="command"))
    if (spread := answer.spread) is not None:
        within = (
            f" and by {spread.within:.3f} from patch to patch"
            if spread.within == spread.within
            else ""
        )
        source = f"standard deviation; {answer.spread_from}"
        blocks.append(
            Prose(
                f"Losses differ by {spread.between:.3f} between cases{within} ({source}).", kind=""
            )
        )
    if answer.training_seconds:
        took = f"The plain training took {duration(answer.training_seconds)}; a robust one takes as long."
        blocks.append(Prose(took, kind=""))
    n_validation = int((~answer.is_training).sum())
    sets = f"{count(answer.diagnosis.n_training, 'training case')}, {count(n_validation, 'validation case')}"
    return printed([*blocks, *map(Note, notes(answer)), Prose(f"{sets}.")])


def heading(answer: Answer) -> str:
    """The finding as a heading; what cannot be told has its reason with it."""
    finding = answer.diagnosis.finding
    return _WORDS[finding][0] + (_cannot_tell(answer)[0] if finding == Finding.CANNOT_TELL else "")


def _cannot_tell(answer: Answer) -> tuple[str, str]:
    """Why nothing can be told, for the heading, and what to do about it."""
    if not answer.has_predictions:
        again = "Run the command again without --no-prediction, with another folder for --output."
        return " without predictions", again
    if answer.diagnosis.is_untrained:
        is_known = answer.diagnosis.n_training >= rules.FEWEST_CASES
        reason = ": nothing is learnt yet" if is_known else ", too few cases"
        return reason, "Train longer, or check the data, before anything else."
    if _is_unfinished(answer):
        reason = (
            ": the training is short" if answer.diagnosis.is_short else ": little is learnt yet"
        )
        return (
            reason,
            "Train longer, and run this command again: what is hard now may still be learnt.",
        )
    return (
        ", too few cases",
        "Collect more cases, or look at all folds: each validates other cases.",
    )


def why(answer: Answer) -> list[str]:
    """What the finding rests on."""
    diagnosis = answer.diagnosis
    if not answer.has_predictions:
        return ["The cases were not predicted, and the rules compare the Dice of full predictions."]
    sentences = []
    if diagnosis.n_training < rules.FEWEST_CASES:
        sentences.append(
            f"The training has {count(diagnosis.n_training, 'case')}. With fewer than {rules.FEWEST_CASES}, a group "
            "that is behind cannot be told from chance."
        )
    if diagnosis.is_untrained:
        sentences.append(
            "No label has a median Dice of 10 or more on the training cases themselves."
        )
    groups = [
        f"The stratum {title(stratum)} is behind on the {count(stratum.n_training, 'case')} of it that the network was "
        f"trained on: mean Dice of {c.label} {points(c.mean)}, others {points(c.others)}."
        for stratum in diagnosis.those(State.BEHIND)
        if (c := stratum.training)
    ]
    groups += [
        f"{_capital(stratum)}: {count(stratum.n_validation, 'validation case')} with a mean Dice of {c.label} "
        f"of {points(c.mean)}, where training cases have {points(c.others)}."
        for stratum in diagnosis.those(State.NOT_CARRIED_OVER)
        if (c := stratum.validation)
    ]
    single = []
    if cases := [outlier.case for outlier in diagnosis.outliers]:
        are = f"{count(len(cases), 'training case')} {'is' if len(cases) == 1 else 'are'}"
        single = [f"{are} far below the others, and no stratum explains it: {name_some(cases)}."]
    sentences += [*single, *groups] if diagnosis.finding == Finding.OUTLIERS else [*groups, *single]
    if (
        diagnosis.finding == Finding.SMALL_OR_FAINT
        and (explanation := diagnosis.explanation) is not None
    ):
        sentences.append(
            f"Size and contrast of {explanation.label} explain {share(explanation.share)} of how its Dice differs "
            f"among the training cases: {points(explanation.low)} in the half that is smaller or fainter, "
            f"{points(explanation.high)} in the other. Beyond that, no stratum is behind."
        )
    if diagnosis.finding == Finding.CANNOT_TELL:
        for stratum in diagnosis.those(State.SUSPICION):
            c, _ = _clearest(stratum, rules.BEHIND)
            sentences.append(
                f"{_capital(stratum)} may be behind: {count(c.n, 'case')} with a mean Dice of {c.label} of "
                f"{points(c.mean)}, others {points(c.others)}. That many comparisons make such a difference by chance."
            )
        sentences += _unfinished(answer) if _is_unfinished(answer) else []
    if diagnosis.finding == Finding.NOTHING_FAILS:
        sentences.append(_nothing(diagnosis))
    return sentences


def advice(answer: Answer) -> list[str]:
    """What to do next."""
    finding = answer.diagnosis.finding
    if finding == Finding.HARD:
        return _robust_training(answer)
    if finding == Finding.OUTLIERS:
        return _look_first(answer)
    if finding == Finding.NOTHING_FAILS:
        gain = (
            "little"
            if any(stratum.column for stratum in answer.diagnosis.those(State.LOWER))
            else "nothing"
        )
        return [f"Robust training has {gain} to gain here. Plain training can stay as it is."]
    return [_cannot_tell(answer)[1] if finding == Finding.CANNOT_TELL else _WORDS[finding][1]]


def command(answer: Answer) -> str:
    """The command to run next; empty if there is none."""
    fold = answer.fold
    is_hard = answer.diagnosis.finding == Finding.HARD
    if answer.diagnosis.finding == Finding.OUTLIERS or (is_hard and answer.would_draw_uniformly):
        return (
            f"nnunet-dro suspects {shlex.quote(str(fold.folder))}"
            if answer.has_hardness_log
            else ""
        )
    if is_hard and fold.trainer != answer.trainer:
        plans = "" if fold.plans == "nnUNetPlans" else f" -p {fold.plans}"
        return f"nnUNetv2_train {fold.dataset} {fold.configuration} {fold.number} -tr {answer.trainer}{plans}"
    return ""


def notes(answer: Answer) -> list[str]:
    """What a reader has to know."""
    found = []
    if not answer.strata_from:
        found.append(
            "There is no cases.csv: who is hard is looked at case by case, not by stratum."
        )
    elif not answer.by:
        found.append("No column of cases.csv divides the cases into strata. Name one with --by.")
    if (
        answer.has_predictions
        and not _is_unfinished(answer)
        and (unfinished := _unfinished(answer))
    ):
        moved = "Robust training moves effort between cases; it does not replace a longer training."
        found.append(" ".join([*unfinished, moved]))
    voxels = answer.cases.set_index("case").filter(regex=f"^{rules.VOXELS}")
    found += note_on_absent_labels(
        voxels.rename(columns=lambda name: name.removeprefix(rules.VOXELS)).to_dict("index")
    )
    if lonely := [s for s in answer.diagnosis.strata if s.state == State.TOO_FEW]:
        names = name_some([title(stratum) for stratum in lonely])
        found.append(
            f"Lower by {100 * rules.BEHIND:.0f} points or more, but of too few cases to tell: {names}."
        )
    unseen = [
        s for s in answer.diagnosis.strata if s.column and s.n_training and not s.n_validation
    ]
    if unseen and answer.diagnosis.finding in (Finding.NOTHING_FAILS, Finding.NOT_CARRIED_OVER):
        names = name_some([title(stratum) for stratum in unseen])
        found.append(
            f"This fold has no validation case of {names}: whether they are carried over is unknown."
        )
    return found


def title(stratum: Stratum) -> str:
    """Name of a stratum with its column."""
    return f"{stratum.name} ({stratum.column})" if stratum.column else "all cases"


def probability(comparison: Comparison) -> str:
    """The probability of a comparison, as a number or as a limit."""
    p = comparison.probability
    return f"{p:.2g}" if p >= 1e-4 else "below 0.0001"


def points(dice: float) -> str:
    """A Dice in per cent."""
    return written(100 * dice, ".0f")


def _is_unfinished(answer: Answer) -> bool:
    """Whether nothing can be told for no other reason than that the training is short or its Dice is low."""
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
    if low := answer.diagnosis.low:
        listed = ", ".join(f"{label} {points(dice)}" for label, dice in low.items())
        sentences.append(
            f"The median Dice of training cases is low ({listed}): the training is short or the labels are hard."
        )
    return sentences


def _capital(stratum: Stratum) -> str:
    return f"The stratum {title(stratum)}" if stratum.column else "All cases"


def _nothing(diagnosis: Diagnosis) -> str:
    n_strata = sum(bool(stratum.column) for stratum in diagnosis.strata)
    whom = f"None of {count(n_strata, 'stratum')}" if n_strata else "No group of cases"
    text = f"{whom} is {100 * rules.BEHIND:.0f} points of Dice or more below the others, beyond what chance explains."
    lower = []
    for stratum in diagnosis.those(State.LOWER):
        if stratum.column:
            c, kind = _clearest(stratum, rules.LOWER)
            means = f"{points(c.mean)}, where other training cases have {points(c.others)}"
            lower.append(
                f"{title(stratum)}, {kind} cases, mean Dice of {c.label} {means} (p {probability(c)})"
            )
    return f"{text} Lower by less: {'; '.join(lower)}." if lower else text


def _clearest(stratum: Stratum, difference: float) -> tuple[Comparison, str]:
    """The comparison that chance explains least, of those with at least this difference, and of which cases it is."""
    both = ((stratum.training, "training"), (stratum.validation, "validation"))
    found = [
        (compared, kind)
        for compared, kind in both
        if compared and compared.difference >= difference
    ]
    return min(found, key=lambda one: one[0].probability)


def _robust_training(answer: Answer) -> list[str]:
    if answer.would_draw_uniformly:
        columns = dict.fromkeys(stratum.column for stratum in answer.diagnosis.those(State.BEHIND))
        return [
            f"{answer.trainer} would draw uniformly from this network, because next to nothing is found of the hardest "
            "cases, and gain nothing while that is so. Look at them first: they may be too small or faint to be "
            "learnt, or wrongly labelled. If they are neither, nnUNetTrainerDRO_share0.5 draws them more "
            "often all the same.",
            *(f"nnUNetTrainerIW_{column} draws every group equally often." for column in columns),
        ]
    if answer.fold.trainer == answer.trainer:
        who = "nnUNetTrainerIW_<column>, which draws every group equally often"
        return [
            f"This is {answer.trainer} already. Look at the hardest cases, or tell a training who they are: {who}."
        ]
    sentences = [f"Robust training is worth a try: {answer.trainer}."]
    if answer.draws is not None:
        effective = f"{answer.draws.effective:.0f} effective cases of {answer.diagnosis.n_training}"
        sentences[0] += f" From this network, its draws would be spread over {effective}."
    for stratum in answer.diagnosis.those(State.BEHIND):
        of_cases, of_draws = answer.share(members(answer, stratum))
        if of_draws == of_draws:
            sentences.append(
                f"{_capital(stratum)} gets {share(of_draws)} of these draws, with {share(of_cases)} of the cases."
            )
        if of_draws < _BLIND * of_cases:
            sentences.append(
                f"Losses of patches hardly show that {title(stratum)} is hard. Tell the training who it is: "
                f"nnUNetTrainerIW_{stratum.column} draws every group equally often."
            )
    if answer.diagnosis.outliers:
        of_cases, of_draws = answer.share([outlier.case for outlier in answer.diagnosis.outliers])
        if of_draws >= _BLIND * of_cases:
            sentences.append(
                f"Look at the outliers first: up to {share(of_draws)} of the draws would go to them."
            )
    return sentences


def _look_first(answer: Answer) -> list[str]:
    _, of_draws = answer.share([outlier.case for outlier in answer.diagnosis.outliers])
    sentences = [
        "Look at these cases before any robust training: most of its rules look at wrong labels most."
    ]
    if of_draws == of_draws:
        sentences.append(
            f"Up to {share(of_draws)} of the draws of {answer.trainer} would go to them."
        )
    sentences.append(
        "If their labels are right, they are hard cases: add a column to cases.csv that says what they have in common, "
        "and run this command again."
    )
    return sentences


def members(answer: Answer, stratum: Stratum) -> list[str]:
    """The cases of a stratum."""
    if not stratum.column:
        return [str(case) for case in answer.cases["case"]]
    return [
        str(case)
        for case in answer.cases["case"][answer.strata[stratum.column].astype(str) == stratum.name]
    ]
