"""The page of the answer: one self-contained file, offline."""

import numpy as np

from nnunet_dro.inspection.doctor import comparisons, rules
from nnunet_dro.inspection.doctor.advice import advice, command
from nnunet_dro.inspection.doctor.answer import CASES_FILE, Answer, duration
from nnunet_dro.inspection.doctor.columns import DICE, LOSS
from nnunet_dro.inspection.doctor.strata import strata_blocks
from nnunet_dro.inspection.doctor.words import heading, notes, why
from nnunet_dro.naming import count, written
from nnunet_dro.pages.document import Block, Heading, Note, Prose, Table
from nnunet_dro.pages.html import SortableColumn, SortableTable, page


def doctor_html(answer: Answer) -> str:
    """The page, in which all names from files are escaped."""
    table = _case_table(answer)
    first, *others = advice(answer)
    blocks: list[Block] = [Heading(heading(answer), anchor="answer", short="Answer")]
    blocks += [Prose(sentence, kind="") for sentence in why(answer)]
    blocks.append(Prose(first, kind="first"))
    blocks += [Prose(sentence, kind="") for sentence in others]
    next_command = command(answer)
    if next_command:
        blocks.append(Prose(next_command, kind="command"))
    blocks += [
        *map(Note, notes(answer)),
        *strata_blocks(answer, table),
        Heading("Spread of the losses", anchor="spread", short="Spread"),
        *_spread(answer),
        Heading("Cost", anchor="cost", short="Cost"),
        Table.of_pairs("Cost", _cost(answer), kind="facts"),
    ]

    fold = answer.fold
    training = count(answer.diagnosis.n_training, "training case")
    validation = count(int((~answer.is_training).sum()), "validation case")
    return page(
        blocks,
        _methods(answer),
        about=_about(answer),
        table=table,
        kind="nnunet-dro · doctor",
        title=f"Would robust training help? {fold.dataset}",
        heading="Would robust training help?",
        lede=(
            f"{fold.trainer} on {fold.dataset}, {fold.configuration}, {fold.folder.name}: "
            f"{training} and {validation}."
        ),
    )


def _spread(answer: Answer) -> list[Block]:
    """How far losses differ, and what that means for the draws."""
    spread = answer.spread
    if spread is None:
        return [Prose("No finite loss was measured.")]

    share = written(spread.share_between, ".0%")
    rows = [
        ("Between cases", f"{spread.between:.3f}"),
        ("From patch to patch of a case", written(spread.within, ".3f")),
        ("Share of the variance of one loss that is between cases", share),
    ]
    draws = answer.draws
    if draws is not None:
        effective = f"{draws.effective:.0f} of {answer.diagnosis.n_training}"
        rows.append((f"Effective cases of {answer.trainer}", effective))
        rows.append(("Its beta", f"{draws.beta:.2g}"))
    about = (
        "Standard deviations of nnU-Net's loss of augmented patches of the training cases. "
        "Hardness weighted sampling can only find what differs between cases."
    )
    return [Prose(about), Table.of_pairs("Spread", rows, kind="facts")]


def _cost(answer: Answer) -> list[tuple[str, str]]:
    """How long the measurements took, and how long a training takes."""
    patches = answer.cases["seconds_patches"]
    prediction = answer.cases["seconds_prediction"]
    total = float(patches.sum() + prediction.sum())

    rows = [
        (f"{count(answer.n_patches, 'patch')} of a case", f"{float(patches.mean()):.2g} s"),
        ("Prediction of a case, without mirroring", f"{float(prediction.mean()):.2g} s"),
        ("All measurements", duration(total)),
    ]
    if answer.training_seconds:
        time = duration(answer.training_seconds)
        rows.append(("The plain training, and a robust one of the same length", time))
    return rows


def _methods(answer: Answer) -> list[Block]:
    """The rules with their numbers, and the definitions."""
    learnt = f"{100 * rules.LEARNT:.0f}"
    low = f"{100 * rules.LOW:.0f}"
    behind = f"{100 * comparisons.BEHIND:g}"
    outlier = f"{100 * rules.OUTLIER:g}"
    share = f"{100 * rules.OUTLIER_SHARE:g}"

    terms = {
        "Cannot tell": (
            f"Fewer than {rules.FEWEST_CASES} training cases, no predictions, or no label with a "
            f"median Dice of {learnt} on the training cases. Labels below that do not count in the "
            "other rules."
        ),
        "A few outliers": (
            f"At least {rules.FEWEST_OUTLIERS} training cases and {share} % of them are {outlier} "
            f"points and {rules.OUTLIER_SD:g} standard deviations (1.4826 times the median "
            "absolute deviation) below the median of a label, no stratum explains them, and they "
            "are at least as many as the cases of strata that are behind. A stratum explains its "
            "cases if it is behind, or uncertain, and at least half of its training cases are that "
            "far below."
        ),
        "Hard to learn": (
            f"The training cases of a stratum are behind: {behind} points of mean Dice of a label "
            f"below the other training cases, with p below {comparisons.LEVEL:g} / "
            f"{answer.diagnosis.n_comparisons} comparisons."
        ),
        "Learnt but not carried over": (
            "The training cases of a stratum are not behind, but its validation cases are, against "
            "all training cases."
        ),
        "Cannot tell, too few cases": (
            f"A stratum is {behind} points below, with p below {comparisons.SUSPICION:g} but not "
            "below the limit above."
        ),
        "Cannot tell: the training is short, or little is learnt yet": (
            f"The training has fewer than {rules.FEWEST_ITERATIONS:,} iterations, or the median "
            f"Dice of a label on the training cases is below {low}."
        ),
        "Nothing fails": "None of these.",
    }

    definitions = {
        "Draws": (
            "Share of the draws of the default trainer from the network as it is, by the pooled "
            "hardness of the measured patches: uniform where next to nothing is found of the "
            "hardest. They change as the network trains."
        ),
        "Effective cases": (
            "exp(entropy) of the probabilities: the number of cases that equally likely draws "
            "would be spread over."
        ),
        "Dice": (
            "2 TP / (2 TP + FP + FN) of the preprocessed case; undefined where neither reference "
            "nor prediction has the label, and then left out."
        ),
    }
    return [
        Heading("The rules", anchor="methods", short="Rules"),
        Prose("The first that holds decides."),
        Table.of_pairs("Rules", terms.items(), kind="terms"),
        Heading("Definitions", 3),
        Table.of_pairs("Definitions", definitions.items(), kind="terms"),
    ]


def _about(answer: Answer) -> dict[str, str]:
    strata = "none"
    if answer.by:
        strata = f"{', '.join(answer.by)} of {answer.strata_from}"
    return {
        **answer.fold.about,
        "Fold": answer.fold.number,
        "Strata": strata,
        "Losses": answer.spread_from,
    }


def _case_table(answer: Answer) -> SortableTable:
    """Every case with its strata, scores and losses, the hardest first."""
    cases = answer.cases
    columns = [
        SortableColumn("Case", "text", cases["case"]),
        SortableColumn("Set", "text", cases["set"], filtered=True),
    ]
    for name in answer.by:
        strata = answer.strata[name].astype(str)
        columns.append(SortableColumn(name, "text", strata, filtered=True))
    for name in map(str, cases.columns):
        if name.startswith(DICE):
            title = f"Dice of {name.removeprefix(DICE)}"
            columns.append(SortableColumn(title, "number", 100 * cases[name]))

    losses = cases[[name for name in cases.columns if str(name).startswith(LOSS)]]
    undefined = cases["share"] * np.nan
    n_losses = len(losses.columns)
    mean = losses.mean(axis=1) if n_losses > 0 else undefined
    deviation = losses.std(axis=1, ddof=1) if n_losses > 1 else undefined
    times_as_often = cases["share"] * answer.diagnosis.n_training
    place_of_mean = len(columns)
    columns += [
        SortableColumn("Mean loss", "decimal", mean),
        SortableColumn("SD of loss", "decimal", deviation),
        SortableColumn("Draws, times as often", "decimal", times_as_often),
    ]
    return SortableTable(
        tuple(columns),
        list(cases["case"]),
        place_of_mean,
        True,
        "All cases of the fold, hardest first.",
        caption="Every case",
        file=CASES_FILE,
    )
