"""The files of a record: its page, or its section of a page, its pictures and its tables."""

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import torch
from matplotlib.figure import Figure

import nnunet_dro
from experiments.record.paragraphs import filled
from experiments.record.runs import shown_duration
from experiments.record.templates import render
from nnunet_dro.files.output_folder import replacing, write_files

_HEADING = "## How it was made\n\n"
_SECTION = re.compile(r"\n*<!-- begin ([\w-]+) -->\n(.*?)<!-- end \1 -->\n", re.DOTALL)


@dataclass(frozen=True)
class PageContent:
    """What a page, or a section of a page, shows."""

    name: str  # Name of the experiment, and of its picture and table.
    title: str
    text: str
    table: pd.DataFrame
    picture: bool = True  # Whether there is one.
    is_section: bool = False
    quick: bool = False  # Whether it is of a smoke run.

    def rendered(self, how: str) -> str:
        """The page in markdown, which says how it was made."""
        text = render(
            "record/record",
            title=self.title,
            name=self.name,
            text=self.text.strip(),
            table=self.table,
            how=how.strip(),
            picture=self.picture,
            quick=self.quick,
            is_section=self.is_section,
        )
        return f"{filled(text)}\n"


def write_page(path: Path, content: PageContent, *, how: str | None) -> Path:
    """Write a page or a section, whole or not at all.

    Without ``how``, the page says it already.

    Raises:
        ValueError: If it does not.
    """
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    sections = dict(_SECTION.findall(before))
    page = _SECTION.sub("", before)
    if how is None:
        # The headings of a section are a level lower than those of a page.
        section = sections.get(content.name, "").replace("\n#", "\n")
        how = _how_before(section if content.is_section else page, path, content.name)

    text = content.rendered(how)
    if content.is_section:
        sections[content.name] = re.sub(r"^#", "##", text, flags=re.MULTILINE)
        if before:
            page = page.rstrip() + "\n"
    else:
        page = text
    for section, text in sections.items():
        page += f"\n<!-- begin {section} -->\n{text}<!-- end {section} -->\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_files(path.parent, {path.name: page})
    return path


def _how_before(text: str, path: Path, name: str) -> str:
    if _HEADING not in text:
        raise ValueError(f"{path} does not say how {name} was made. Leave --render out, to run it.")
    return text.split(_HEADING)[1]


def write_picture(path: Path, figure: Figure) -> None:
    """Write a picture, whole or not at all, with a grid and without frames."""
    for axes in figure.axes:
        axes.grid(color="0.92")
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=150)


def write_table(path: Path, table: pd.DataFrame, *, float_format: str | None = None) -> None:
    """Write a table as CSV, whole or not at all.

    It has no index, and all digits if no format is given.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        table.to_csv(partial, index=False, float_format=float_format)


def how_it_was_made(
    command: str,
    *,
    seeds: Sequence[int],
    added: Sequence[int],
    seconds: float,
    failures: Mapping[str, str],
) -> str:
    """How a record was made, for its page.

    The seconds are those of the runs, or of the seeds that were added.
    """
    versions = [f"{package} {version(package)}" for package in ("torch", "nnunetv2")]
    return render(
        "record/how",
        command=command,
        seeds=seeds,
        added=added,
        duration=shown_duration(seconds),
        failures=failures,
        versions=[*versions, f"nnunet-dro {nnunet_dro.__version__}"],
        processor=_processor(),
        n_threads=torch.get_num_threads(),
        n_cores=os.cpu_count(),
        date=datetime.now(timezone.utc).date().isoformat(),
    )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
        if match := re.search(r"^model name.*?:(.*)", text, re.MULTILINE):
            return " ".join(match[1].split())
    return platform.processor() or platform.machine() or "unknown processor"
