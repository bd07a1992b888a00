"""The lesions that are found, by volume, as tables of written cells for HTML, markdown, LaTeX and the terminal."""

from dataclasses import dataclass

import pandas as pd

from nnunet_dro.evaluation.report.formatting import attribute_title, bounds, number, stratum_title
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.stratifying.stratify import ALL

#: The headings of the numbers.
HEADINGS = ("Lesions", "Cases", "Found", "Recall (%)", "Dice (%)", "Invented")


@dataclass(frozen=True)
class LesionRow:
    """The lesions of one stratum, label and range of volumes.

    Attributes:
        stratum: Heading of the stratum.
        label: Name.
        volume: The range, without its unit.
        cells: The numbers as text, as `HEADINGS` says.
        interval: The interval of the recall; empty where there is none.
    """

    stratum: str
    label: str
    volume: str
    cells: tuple[str, ...]
    interval: str

    @property
    def cells_with_interval(self) -> list[str]:
        """The numbers, with the interval beside the recall."""
        cells = list(self.cells)
        cells[HEADINGS.index("Recall (%)")] += f" {self.interval}" if self.interval else ""
        return cells


@dataclass(frozen=True)
class LesionTable:
    """The lesions by volume of one attribute.

    Attributes:
        attribute: Name.
        unit: Of the volumes: ``mm³`` or ``voxels``.
        rows: In the order to show them.
    """

    attribute: str
    unit: str
    rows: tuple[LesionRow, ...]

    @property
    def has_strata(self) -> bool:
        """Whether the rows are those of several strata."""
        return self.attribute != ALL

    @property
    def title(self) -> str:
        """The heading."""
        return f"{attribute_title(self.attribute)}: lesions found, by volume"

    @property
    def headings(self) -> list[str]:
        """The headings of the names, then of the numbers."""
        return ["Label", *(["Stratum"] if self.has_strata else []), f"Volume ({self.unit})", *HEADINGS]

    def names(self, row: LesionRow) -> list[str]:
        """The names of a row."""
        return [row.label, *([row.stratum] if self.has_strata else []), row.volume]


def lesion_tables(sizes: pd.DataFrame) -> list[LesionTable]:
    """Tables per attribute; none where no lesions were compared.

    Args:
        sizes: From `lesion_sizes`.

    Returns:
        The tables; the strata of a label stand one below the other.
    """
    if not len(sizes):
        return []
    tables = []
    for attribute in sizes["attribute"].unique():
        group = sizes[sizes["attribute"] == attribute]
        rows = [
            _row(str(attribute), dict(record))
            for label in group["label"].unique()
            for record in group[group["label"] == label].to_dict("records")
        ]
        unit = str(group["unit"].iloc[0])
        tables.append(LesionTable(str(attribute), {"mm3": "mm³"}.get(unit, unit), tuple(rows)))
    return tables


def _row(attribute: str, record: "dict[object, object]") -> LesionRow:
    fraction = METRICS["lesion_recall"]
    numbers = {name: float(str(record[name])) for name in ("recall", "recall_low", "recall_high", "dice_of_found")}
    counts = {name: f"{int(str(record[name])):,}" for name in ("n_lesions", "n_cases", "n_found", "n_invented")}
    interval = bounds(numbers["recall_low"], numbers["recall_high"], fraction)
    shares = {name: number(numbers[name], fraction) for name in ("recall", "dice_of_found")}
    of_found = (counts["n_found"], shares["recall"], shares["dice_of_found"])
    cells = (counts["n_lesions"], counts["n_cases"], *of_found, counts["n_invented"])
    low, high = (f"{int(end):,}" for end in str(record["volume"]).split(" to "))
    stratum = stratum_title(attribute, str(record["stratum"]))
    return LesionRow(stratum, str(record["label"]), f"{low} to {high}", cells, interval)
