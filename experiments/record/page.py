"""The files of a record: its page, or its section of a page, its pictures and its tables."""

import os
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import torch
from matplotlib.figure import Figure

import nnunet_dro
from experiments.record.runs import shown_duration
from experiments.record.templates import render
from nnunet_dro.files.output_folder import replacing, write_files

_HEADING = "## How it was made\n\n"
_SECTION = re.compile(r"\n*<!-- begin ([\w-]+) -->\n(.*?)<!-- end \1 -->\n", re.DOTALL)


def write_page(
    path: Path,
    name: str,
    *,
    title: str,
    text: str,
    table: pd.DataFrame,
    how: str | None,
    picture: bool = True,
    is_section: bool = False,
    quick: bool = False,
) -> Path:
    """Write a page or a section, whole or not at all.

    Without ``how``, the page says it already, or ValueError.
    """
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    sections = dict(_SECTION.findall(before))
    own = sections.get(name, "").replace("\n#", "\n") if is_section else _SECTION.sub("", before)
    if how is None:
        if _HEADING not in own:
            raise ValueError(
                f"{path} does not say how {name} was made. Leave --render out, to run it."
            )
        how = own.split(_HEADING)[1]
    values = {
        "title": title,
        "name": name,
        "text": text.strip(),
        "table": table,
        "how": how.strip(),
    }
    made = f"{render('record/record', **values, picture=picture, quick=quick, is_section=is_section)}\n"
    if is_section:
        sections[name] = re.sub(r"^#", "##", made, flags=re.MULTILINE)
    whole = (_SECTION.sub("", before).rstrip() + "\n" if before else "") if is_section else made
    for section, content in sections.items():
        whole += f"\n<!-- begin {section} -->\n{content}<!-- end {section} -->\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_files(path.parent, {path.name: whole})
    return path


def write_picture(path: Path, figure: Figure) -> None:
    """Write a picture, whole or not at all, with a grid and without frames."""
    for axes in figure.axes:
        axes.grid(color="0.92")
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=150)


def write_table(path: Path, table: pd.DataFrame, *, float_format: str | None = None) -> None:
    """Write a table as CSV, whole or not at all, without its index, with all digits if no format is given."""
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
    text = cpuinfo.read_text(encoding="utf-8", errors="replace") if cpuinfo.exists() else ""
    if found := re.search(r"^model name.*?:(.*)", text, re.MULTILINE):
        return " ".join(found[1].split())
    return platform.processor() or platform.machine() or "unknown processor"
