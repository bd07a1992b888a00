"""The page of the answer: one self-contained file, offline."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from markupsafe import Markup

from nnunet_dro.doctor import rules
from nnunet_dro.doctor.answer import CASES_FILE, Answer, duration
from nnunet_dro.doctor.rules import DICE, LOSS, TRAINING, VALIDATION, State, Stratum
from nnunet_dro.doctor.words import (
    advice,
    command,
    heading,
    members,
    notes,
    points,
    probability,
    why,
)
from nnunet_dro.evaluation.report.figures import StratumCases, about_distribution, distribution
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.naming import NO_VALUE, count, written
from nnunet_dro.pages.document import Block, Cell, Column, Figure, Heading, Note, Prose, Table
from nnunet_dro.pages.html import SortableColumn, SortableTable, page

_MOST_OUTLIERS = 20  # More outliers than this are in the table of cases only.
_MOST_DOTS = 400  # The most dots of a row of a figure, those of the worst cases.
_MOST_FIGURES = 4  # Figures of more columns than this are left out; their strata are in the table.


def doctor_html(answer: Answer) -> str:
    """The page, in which all names from files are escaped."""
    fold = answer.fold
    n_validation = int((~answer.is_training).sum())
    sets = f"{count(answer.diagnosis.n_training, 'training case')} and {count(n_validation, 'validation case')}"
    first, *others = advice(answer)
    blocks: list[Block] = [
        Heading(heading(answer), anchor="answer", short="Answer"),
        *(Prose(sentence, kind="") for sentence in why(answer)),
        Prose(first, kind="first"),
        *(Prose(sentence, kind="") for sentence in others),
        *([Prose(shown, kind="command")] if (shown := command(answer)) else []),
        *map(Note, notes(answer)),
        *_strata(answer),
        Heading("Spread of the losses", anchor="spread", short="Spread"),
        *_spread(answer),
        Heading("Cost", anchor="cost", short="Cost"),
        Table.of_pairs("Cost", _cost(answer), kind="facts"),
    ]
    return page(
        blocks,
        _methods(answer),
        about=_about(answer),
        table=_case_table(answer),
        kind="nnunet-dro · doctor",
        title=f"Would robust training help? {fold.dataset}",
        heading="Would robust training help?",
        lede=f"{fold.trainer} on {fold.dataset}, {fold.configuration}, {fold.folder.name}: {sets}.",
    )


def _strata(answer: Answer) -> Iterator[Block]:
    yield Heading("Who is hard", anchor="strata", short="Who is hard")
    yield Prose(
        "Mean Dice of full predictions, in per cent, in the label in which the stratum is most clearly below: its "
        "training cases against the other training cases, and its validation cases against all training cases. p is "
        "the probability of ranks as low as these by chance, in one comparison."
    )
    yield _strata_table(answer)
    if charts := _charts(answer):
        yield Heading("Dice of every case, in per cent", 3)
        yield Figure(charts)
        about = about_distribution(METRICS["dice"])
        yield Prose(f"{about} A dot opens its case in the table below.", kind="key")
    if outliers := answer.diagnosis.outliers[:_MOST_OUTLIERS]:
        n_all = len(answer.diagnosis.outliers)
        some = f": the first {len(outliers)} of {n_all}" if n_all > len(outliers) else ""
        columns = [
            (Column("Case", "name"), lambda outlier: outlier.case),
            (Column("Label", "text"), lambda outlier: outlier.label),
            (Column("Dice"), lambda outlier: points(outlier.dice)),
            (Column("Outlier below"), lambda outlier: points(outlier.limit)),
        ]
        yield Heading("Outliers", 3)
        yield Prose(f"Training cases far below the others that no stratum explains{some}.")
        yield Table.of("Outliers", columns, outliers)


def _strata_table(answer: Answer) -> Table:
    """How the cases of each stratum compare with others, and how often they would be drawn."""

    def share(place: int) -> Any:
        return lambda stratum: written(
            answer.share(members(answer, stratum))[place], ".0%"
        ).removesuffix(" %")

    def name(stratum: Stratum) -> str:
        return f"{stratum.column}: {stratum.name}" if stratum.column else stratum.name

    def state(stratum: Stratum) -> Cell:
        is_worse = stratum.state in (State.BEHIND, State.NOT_CARRIED_OVER)
        return Cell(stratum.state.value, kind=f"state{' worse' * is_worse}")

    columns: list[Any] = [(Column("Stratum", "name"), name), (Column("Finding", "text"), state)]
    for of in ("training", "validation"):
        above = f"{of.capitalize()} cases"
        columns.append(
            (Column("n", above=above), lambda stratum, of=of: str(getattr(stratum, f"n_{of}")))
        )
        for column, text_of in _COMPARED.items():
            columns.append(
                (replace(column, above=above), lambda one, of=of, w=text_of: w(getattr(one, of)))
            )
    columns += [
        (Column(title, above="Share, %"), share(n)) for n, title in enumerate(("Cases", "Draws"))
    ]
    return Table.of("Strata", columns, answer.diagnosis.strata)


#: What is said of a comparison, if there is one.
_COMPARED = {
    Column("Label", "text"): lambda compared: compared.label if compared else "",
    Column("Mean"): lambda compared: points(compared.mean) if compared else NO_VALUE,
    Column("Others"): lambda compared: points(compared.others) if compared else "",
    Column("p"): lambda compared: probability(compared) if compared else "",
}


def _charts(answer: Answer) -> list[tuple[str, list[Markup]]]:
    """A figure for each column, of the label in which a stratum of it is furthest behind."""
    if not answer.has_predictions:
        return []
    found = []
    for column in answer.by[:_MOST_FIGURES] or ("",):
        compared = [
            comparison
            for stratum in answer.diagnosis.strata
            if stratum.column == column
            for comparison in (stratum.training, stratum.validation)
            if comparison is not None
        ]
        worst = max(compared, key=lambda comparison: comparison.difference, default=None)
        label = (
            worst.label
            if worst
            else min(answer.diagnosis.medians, key=lambda name: answer.diagnosis.medians[name])
        )
        found.append(
            (f"{label}, by {column}" if column else label, [_dice_figure(answer, column, label)])
        )
    return found


def _dice_figure(answer: Answer, column: str, label: str) -> Markup:
    """Who is hard: the Dice of every case in one label, a row for each stratum and set.

    Without a column, each set.
    """
    cases = answer.cases
    values = 100 * cases[DICE + label].to_numpy(dtype=float)
    names = (
        answer.strata[column].astype(str).to_numpy() if column else np.full(len(cases), "all cases")
    )
    rows = []
    for name in sorted(set(names)):
        for place, kind in enumerate((TRAINING, VALIDATION)):
            inside = np.flatnonzero((names == name) & (cases["set"] == kind).to_numpy())
            if np.isfinite(values[inside]).any():
                rows.append(
                    StratumCases.of(
                        place, f"{name}, {kind}", values[inside], inside, METRICS["dice"]
                    )
                )
    place = _case_table(answer).column(f"Dice of {label}")
    return distribution(rows, METRICS["dice"], label=label, column=place, at_most=_MOST_DOTS)


def _spread(answer: Answer) -> list[Block]:
    if answer.spread is None:
        return [Prose("No finite loss was measured.")]
    spread = answer.spread
    rows = [
        ("Between cases", f"{spread.between:.3f}"),
        ("From patch to patch of a case", written(spread.within, ".3f")),
        (
            "Share of the variance of one loss that is between cases",
            written(spread.share_between, ".0%"),
        ),
    ]
    if answer.draws is not None:
        effective = f"{answer.draws.effective:.0f} of {answer.diagnosis.n_training}"
        rows += [
            (f"Effective cases of {answer.trainer}", effective),
            ("Its beta", f"{answer.draws.beta:.2g}"),
        ]
    about = (
        "Standard deviations of nnU-Net's loss of augmented patches of the training cases. Hardness weighted "
        "sampling can only find what differs between cases."
    )
    return [Prose(about), Table.of_pairs("Spread", rows, kind="facts")]


def _cost(answer: Answer) -> list[tuple[str, str]]:
    cases = answer.cases
    patches = float(cases["seconds_patches"].mean())
    prediction = float(cases["seconds_prediction"].mean())
    total = float(cases["seconds_patches"].sum() + cases["seconds_prediction"].sum())
    rows = [
        (f"{count(answer.n_patches, 'patch')} of a case", f"{patches:.2g} s"),
        ("Prediction of a case, without mirroring", f"{prediction:.2g} s"),
        ("All measurements", duration(total)),
    ]
    if answer.training_seconds:
        rows.append(
            (
                "The plain training, and a robust one of the same length",
                duration(answer.training_seconds),
            )
        )
    return rows


def _methods(answer: Answer) -> list[Block]:
    behind, outlier, share = (
        f"{100 * value:g}" for value in (rules.BEHIND, rules.OUTLIER, rules.OUTLIER_SHARE)
    )
    learnt = f"{100 * rules.LEARNT:.0f}"
    low = f"{100 * rules.LOW:.0f}"
    terms = {
        "Cannot tell": f"Fewer than {rules.FEWEST_CASES} training cases, no predictions, or no label with a median "
        f"Dice of {learnt} on the training cases. Labels below that do not count in the other rules.",
        "A few outliers": f"At least {rules.FEWEST_OUTLIERS} training cases and {share} % of them are {outlier} "
        f"points and {rules.OUTLIER_SD:g} standard deviations (1.4826 times the median absolute deviation) below the "
        "median of a label, no stratum explains them, and they are at least as many as the cases of strata that are "
        "behind. A stratum explains its cases if it is behind, or uncertain, and at least half of its training cases "
        "are that far below.",
        "Hard to learn": f"The training cases of a stratum are behind: {behind} points of mean Dice of a label below "
        f"the other training cases, with p below {rules.LEVEL:g} / {answer.diagnosis.n_comparisons} comparisons.",
        "Learnt but not carried over": "The training cases of a stratum are not behind, but its validation cases are, "
        "against all training cases.",
        "Cannot tell, too few cases": f"A stratum is {behind} points below, with p below {rules.SUSPICION:g} but not "
        "below the limit above.",
        "Cannot tell: the training is short, or little is learnt yet": "The training has fewer than "
        f"{rules.FEWEST_ITERATIONS:,} iterations, or the median Dice of a label on the training cases is below {low}.",
        "Nothing fails": "None of these.",
    }
    definitions = {
        "Draws": "Share of the draws of the default trainer from the network as it is, by the pooled hardness of the "
        "measured patches: uniform where next to nothing is found of the hardest. They change as the network trains.",
        "Effective cases": "exp(entropy) of the probabilities: the number of cases that equally likely draws would be "
        "spread over.",
        "Dice": "2 TP / (2 TP + FP + FN) of the preprocessed case; undefined where neither reference nor prediction "
        "has the label, and then left out.",
    }
    return [
        Heading("The rules", anchor="methods", short="Rules"),
        Prose("The first that holds decides."),
        Table.of_pairs("Rules", terms.items(), kind="terms"),
        Heading("Definitions", 3),
        Table.of_pairs("Definitions", definitions.items(), kind="terms"),
    ]


def _about(answer: Answer) -> dict[str, str]:
    strata = f"{', '.join(answer.by)} of {answer.strata_from}" if answer.by else "none"
    return {
        **answer.fold.about,
        "Fold": answer.fold.number,
        "Strata": strata,
        "Losses": answer.spread_from,
    }


def _case_table(answer: Answer) -> SortableTable:
    cases = answer.cases
    losses = [name for name in cases.columns if str(name).startswith(LOSS)]
    mean = cases[losses].mean(axis=1) if losses else cases["share"] * np.nan
    deviation = cases[losses].std(axis=1, ddof=1) if len(losses) > 1 else mean * np.nan
    often = cases["share"] * answer.diagnosis.n_training
    columns = [
        SortableColumn("Case", "text", cases["case"]),
        SortableColumn("Set", "text", cases["set"], filtered=True),
        *(
            SortableColumn(name, "text", answer.strata[name].astype(str), filtered=True)
            for name in answer.by
        ),
        *(
            SortableColumn(f"Dice of {str(name).removeprefix(DICE)}", "number", 100 * cases[name])
            for name in cases.columns
            if str(name).startswith(DICE)
        ),
        SortableColumn("Mean loss", "decimal", mean),
        SortableColumn("SD of loss", "decimal", deviation),
        SortableColumn("Draws, times as often", "decimal", often),
    ]
    place = len(columns) - 3
    about = "All cases of the fold, hardest first."
    return SortableTable(
        tuple(columns),
        list(cases["case"]),
        place,
        True,
        about,
        caption="Every case",
        file=CASES_FILE,
    )
