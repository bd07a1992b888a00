"""The files of a record: its page, or its section of a page, its pictures and its tables."""

import os
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

import nnunet_dro
from experiments.record.runs import shown_duration
from experiments.record.templates import render
from nnunet_dro.files.output_folder import replacing, write_files

_HEADING = "## How it was made\n\n"
_SECTION = re.compile(r"\n*<!-- begin ([\w-]+) -->\n(.*?)<!-- end \1 -->\n", re.DOTALL)


def write_page(path: Path, name: str, text: str, *, is_section: bool) -> Path:
    """Write the text of a page, or of the section of that name, whole or not at all."""
    page, sections = _parts(path)
    if is_section:
        # The headings of a section are a level lower than those of a page.
        sections[name] = re.sub(r"^#", "##", text, flags=re.MULTILINE)
        page = page and page.rstrip() + "\n"
    else:
        page = text
    for section, text_of_section in sections.items():
        page += f"\n<!-- begin {section} -->\n{text_of_section}<!-- end {section} -->\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_files(path.parent, {path.name: page})
    return path


def how_before(path: Path, name: str, *, is_section: bool) -> str:
    """What a page or section says of how it was made.

    Raises:
        ValueError: If it does not.
    """
    page, sections = _parts(path)
    text = sections.get(name, "").replace("\n#", "\n") if is_section else page
    if _HEADING not in text:
        raise ValueError(f"{path} does not say how {name} was made. Leave --render out, to run it.")
    return text.split(_HEADING)[1]


def _parts(path: Path) -> tuple[str, dict[str, str]]:
    """A page without its sections, and the sections by their names; empty if there is no file."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return _SECTION.sub("", text), dict(_SECTION.findall(text))


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
    import torch

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
