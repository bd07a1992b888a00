"""Who is hard, for the page: the strata in a table and in figures, and the outliers."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from markupsafe import Markup

from nnunet_dro.evaluation.report.figures import StratumCases, about_distribution, distribution
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.inspection.doctor.answer import Answer
from nnunet_dro.inspection.doctor.columns import DICE, TRAINING, VALIDATION
from nnunet_dro.inspection.doctor.comparisons import GroupComparison, State, Stratum
from nnunet_dro.inspection.doctor.words import points, probability
from nnunet_dro.naming import NO_VALUE
from nnunet_dro.pages.document import Block, Cell, Column, Figure, Heading, Prose, Table
from nnunet_dro.pages.html import SortableTable

_Text = Callable[[Stratum], str]  # What a column of the table says of a stratum.

#: More outliers than this are in the table of cases only.
_MOST_OUTLIERS = 20

#: The most dots of a row of a figure, those of the worst cases.
_MOST_DOTS = 400

#: Figures of more columns than this are left out; their strata are in the table.
_MOST_FIGURES = 4


def who_is_hard(answer: Answer, table: SortableTable) -> Iterator[Block]:
    """Who is hard, in a table and in figures, and the outliers.

    ``table`` is the one of all cases, where the dots of the figures lead.
    """
    yield Heading("Who is hard", anchor="strata", short="Who is hard")
    yield Prose(
        "Mean Dice of full predictions, in per cent, in the label in which the stratum is most "
        "clearly below: its training cases against the other training cases, and its validation "
        "cases against all training cases. p is the probability of ranks as low as these by "
        "chance, in one comparison."
    )
    yield _strata_table(answer)

    charts = _charts(answer, table)
    if charts:
        at_most = _MOST_DOTS if len(answer.cases) > _MOST_DOTS else None
        about = about_distribution(METRICS["dice"], at_most)
        yield Heading("Dice of every case, in per cent", 3)
        yield Figure(charts)
        yield Prose(f"{about} A dot opens its case in the table below.", kind="key")
    if answer.diagnosis.outliers:
        yield from _outliers(answer)


def _outliers(answer: Answer) -> Iterator[Block]:
    outliers = answer.diagnosis.outliers
    first = outliers[:_MOST_OUTLIERS]
    about = "Training cases far below the others that no stratum explains"
    if len(outliers) > len(first):
        about += f": the first {len(first)} of {len(outliers)}"

    columns = [
        (Column("Case", "name"), lambda outlier: outlier.case),
        (Column("Label", "text"), lambda outlier: outlier.label),
        (Column("Dice"), lambda outlier: points(outlier.dice)),
        (Column("Outlier below"), lambda outlier: points(outlier.limit)),
    ]
    yield Heading("Outliers", 3)
    yield Prose(f"{about}.")
    yield Table.of("Outliers", columns, first)


def _strata_table(answer: Answer) -> Table:
    """How the cases of each stratum compare with others, and how often they would be drawn."""

    def shares(stratum: Stratum) -> tuple[float, float]:
        return answer.share(answer.members(stratum))

    columns: list[Any] = [
        (Column("Stratum", "name"), _name),
        (Column("Finding", "text"), _state),
        *_compared(
            "Training cases",
            n_cases=lambda stratum: stratum.n_training,
            comparison=lambda stratum: stratum.training,
        ),
        *_compared(
            "Validation cases",
            n_cases=lambda stratum: stratum.n_validation,
            comparison=lambda stratum: stratum.validation,
        ),
        (Column("Cases", above="Share, %"), lambda stratum: points(shares(stratum)[0])),
        (Column("Draws", above="Share, %"), lambda stratum: points(shares(stratum)[1])),
    ]
    return Table.of("Strata", columns, answer.diagnosis.strata)


def _compared(
    above: str,
    *,
    n_cases: Callable[[Stratum], int],
    comparison: Callable[[Stratum], GroupComparison | None],
) -> list[tuple[Column, _Text]]:
    """The columns of one kind of cases: how many a stratum has, and how they compare."""

    def entry(text: Callable[[GroupComparison], str], otherwise: str = "") -> _Text:
        def text_of_stratum(stratum: Stratum) -> str:
            compared = comparison(stratum)
            return otherwise if compared is None else text(compared)

        return text_of_stratum

    return [
        (Column("n", above=above), lambda stratum: str(n_cases(stratum))),
        (Column("Label", "text", above=above), entry(lambda compared: compared.label)),
        (Column("Mean", above=above), entry(lambda compared: points(compared.mean), NO_VALUE)),
        (Column("Others", above=above), entry(lambda compared: points(compared.others))),
        (Column("p", above=above), entry(probability)),
    ]


def _name(stratum: Stratum) -> str:
    return f"{stratum.column}: {stratum.name}" if stratum.column else stratum.name


def _state(stratum: Stratum) -> Cell:
    kind = "state"
    if stratum.state in (State.BEHIND, State.NOT_CARRIED_OVER):
        kind = "state worse"
    return Cell(stratum.state.value, kind=kind)


def _charts(answer: Answer, table: SortableTable) -> list[tuple[str, list[Markup]]]:
    """A figure for each column, of the label in which a stratum of it is furthest behind."""
    if not answer.has_predictions:
        return []

    charts = []
    for column in answer.by[:_MOST_FIGURES] or ("",):
        label = _worst_label(answer, column)
        title = f"{label}, by {column}" if column else label
        place = table.column(f"Dice of {label}")
        charts.append((title, [_dice_figure(answer, column, label, place)]))
    return charts


def _strata_of(answer: Answer, column: str) -> list[Stratum]:
    """The strata of a column; without a column, all cases."""
    return [stratum for stratum in answer.diagnosis.strata if stratum.column == column]


def _worst_label(answer: Answer, column: str) -> str:
    """The label in which a stratum is furthest behind, or else the one of the lowest Dice."""
    comparisons_of_column = []
    for stratum in _strata_of(answer, column):
        comparisons_of_column += [stratum.training, stratum.validation]

    compared = [comparison for comparison in comparisons_of_column if comparison is not None]
    if compared:
        return max(compared, key=lambda comparison: comparison.difference).label
    # A label that no case has counts last: its figure would be empty.
    medians = answer.diagnosis.medians
    return min(medians, key=lambda label: np.nan_to_num(medians[label], nan=np.inf))


def _dice_figure(answer: Answer, column: str, label: str, place: int) -> Markup:
    """Who is hard: the Dice of every case in one label, a row for each stratum and set.

    Without a column, there is a row for each set. ``place`` is that of the Dice among the columns
    of the table of cases.
    """
    cases = answer.cases
    dice = METRICS["dice"]
    values = 100 * cases[DICE + label].to_numpy(dtype=float)
    rows = []
    for stratum in _strata_of(answer, column):
        for shade, kind in enumerate((TRAINING, VALIDATION)):
            inside = np.flatnonzero(stratum.members & (cases["set"] == kind).to_numpy())
            if np.isfinite(values[inside]).any():
                # The end of a long name is cut off.
                title = f"{kind}: {stratum.name}"
                rows.append(
                    StratumCases.of(
                        shade,
                        title,
                        values[inside],
                        inside,
                        dice,
                    )
                )
    return distribution(
        rows,
        dice,
        label=label,
        column=place,
        at_most=_MOST_DOTS,
    )
