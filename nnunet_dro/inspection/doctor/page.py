"""The answer on the terminal and on its page, one self-contained file, offline."""

import shlex
from collections.abc import Iterator

from rich.console import RenderableType

from nnunet_dro.inspection.doctor.answer import CASES_FILE, Answer
from nnunet_dro.inspection.doctor.columns import DICE, LOSS
from nnunet_dro.inspection.doctor.rules import Finding
from nnunet_dro.inspection.doctor.strata import who_is_hard
from nnunet_dro.inspection.doctor.words import WORDS, duration
from nnunet_dro.naming import count, share, written
from nnunet_dro.nnunet.folders import plans_option
from nnunet_dro.pages.document import Block, Heading, Note, Prose, Table
from nnunet_dro.pages.html import SortableColumn, SortableTable, page
from nnunet_dro.pages.terminal import printed


def answer_lines(answer: Answer) -> RenderableType:
    """The finding, what it rests on, and what to do, for rich's console.

    Names from files are shown as they are.
    """
    return printed(
        [
            *_finding(answer),
            Prose(WORDS.sentences("spread_and_time", answer=answer)),
            *_notes(answer),
            Prose(f"{', '.join(_numbers_of_cases(answer))}."),
        ]
    )


def doctor_html(answer: Answer) -> str:
    """The page, in which all names from files are escaped."""
    table = _case_table(answer)
    blocks = [
        *_finding(answer),
        *_notes(answer),
        *who_is_hard(answer, table),
        Heading("Spread of the losses", anchor="spread", short="Spread"),
        *_spread(answer),
        Heading("Cost", anchor="cost", short="Cost"),
        Table.of_pairs("Cost", _cost(answer), kind="facts"),
    ]
    rules = WORDS.definitions("the_rules", diagnosis=answer.diagnosis)
    appendix: list[Block] = [
        Heading("The rules", anchor="methods", short="Rules"),
        Prose("The first that holds decides."),
        Table.of_pairs("Rules", rules, kind="terms"),
        Heading("Definitions", 3),
        Table.of_pairs(
            "Definitions", WORDS.definitions("definitions", answer=answer), kind="terms"
        ),
    ]

    fold = answer.fold
    return page(
        blocks,
        appendix,
        about=_about(answer),
        table=table,
        kind="nnunet-dro · doctor",
        title=f"Would robust training help? {fold.dataset}",
        heading="Would robust training help?",
        lede=(
            f"{fold.trainer} on {fold.dataset}, {fold.configuration}, {fold.folder.name}: "
            f"{' and '.join(_numbers_of_cases(answer))}."
        ),
    )


def _finding(answer: Answer) -> Iterator[Block]:
    """The finding, what it rests on, and what to do."""
    yield Heading(WORDS.sentence("heading", answer=answer), anchor="answer", short="Answer")
    for sentence in WORDS.sentences("why", answer=answer):
        yield Prose(sentence, kind="")

    first, *others = WORDS.sentences("advice", answer=answer)
    yield Prose(first, kind="first")
    for sentence in others:
        yield Prose(sentence, kind="")
    next_command = command(answer)
    if next_command:
        yield Prose(next_command, kind="command")


def command(answer: Answer) -> str:
    """The command to run next; empty if there is none."""
    fold = answer.fold
    finding = answer.diagnosis.finding
    is_hard = finding == Finding.HARD

    if finding == Finding.OUTLIERS or (is_hard and answer.would_help_nobody):
        folder = shlex.quote(str(fold.folder))
        return f"nnunet-dro suspects {folder}" if answer.has_hardness_log else ""
    if is_hard and answer.trained_with != answer.trainer:
        return (
            f"nnUNetv2_train {fold.dataset} {fold.configuration} {fold.number} "
            f"-tr {answer.trainer}{plans_option(fold.plans)}"
        )
    return ""


def _notes(answer: Answer) -> list[Note]:
    return [*map(Note, answer.notes), *map(Note, WORDS.sentences("notes", answer=answer))]


def _numbers_of_cases(answer: Answer) -> tuple[str, str]:
    """How many training cases and validation cases there are."""
    n_validation = int((~answer.is_training).sum())
    training = count(answer.diagnosis.n_training, "training case")
    return training, count(n_validation, "validation case")


def _spread(answer: Answer) -> list[Block]:
    """How far losses differ, and what that means for the draws."""
    spread = answer.spread
    if spread is None:
        return [Prose("No finite loss was measured.")]

    rows = [
        ("Between cases", f"{spread.between:.3f}"),
        ("From patch to patch of a case", written(spread.within, ".3f")),
        (
            "Share of the variance of one loss that is between cases",
            share(spread.share_between),
        ),
    ]
    draws = answer.draws
    if draws is not None:
        effective = f"{draws.effective:.0f} of {answer.diagnosis.n_training}"
        rows.append((f"Effective cases of {answer.trainer}", effective))
        rows.append(("What goes to the hardest", f"up to {share(draws.part)} of the draws"))
    about = (
        "Standard deviations of nnU-Net's loss of augmented patches of the training cases. "
        "Hardness weighted sampling can only find what differs between cases."
    )
    return [Prose(about), Table.of_pairs("Spread", rows, kind="facts")]


def _cost(answer: Answer) -> list[tuple[str, str]]:
    """How long the measurements took, and how long a training takes."""
    seconds = {
        f"{count(answer.n_patches, 'patch')} of a case": answer.cases["seconds_patches"],
        "Prediction of a case, without mirroring": answer.cases["seconds_prediction"],
    }
    # What was not measured took no time.
    rows = [(name, f"{times.mean():.2g} s") for name, times in seconds.items() if times.any()]
    total = float(sum(times.sum() for times in seconds.values()))
    rows.append(("All measurements", duration(total)))
    if answer.training_seconds:
        time = duration(answer.training_seconds)
        rows.append(("This training, and a robust one of the same length", time))
    return rows


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

    losses = cases.filter(regex=f"^{LOSS}")
    times_as_often = cases["share"] * answer.diagnosis.n_training
    # Without losses of its own patches, a case is as hard as its draws say.
    sorted_by = len(columns) if answer.n_patches else len(columns) + 2
    columns += [
        SortableColumn("Mean loss", "decimal", losses.mean(axis=1)),
        SortableColumn("SD of loss", "decimal", losses.std(axis=1, ddof=1)),
        SortableColumn("Draws, times as often", "decimal", times_as_often),
    ]
    return SortableTable(
        tuple(columns),
        list(cases["case"]),
        sorted_by,
        True,
        "All cases of the fold, by their mean loss; where none was measured, by their draws.",
        caption="Every case",
        file=CASES_FILE,
    )
