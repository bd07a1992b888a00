"""Examine the plain trainings of the experiments, and compare the findings with what came out of these.

    python -m experiments doctor --work FOLDER

The work folder has one of each experiment, in which ``seed0`` has its plain training (ERM). The rows of experiments
without one stay as they are. Cases that were measured are not measured again.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments.doctor.recorded import EXPERIMENTS, Recorded
from experiments.doctor.table import END, START, markdown, row_of
from nnunet_dro.doctor import Answer, examine
from nnunet_dro.files.atomic import replacing
from nnunet_dro.progress_bar import progress_bar

_DOCS = Path(__file__).parents[2] / "docs"


def main(words: Sequence[str] | None = None) -> int:
    """Write docs/results/doctor.csv and the table in docs/doctor.md; returns the exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, help="Folder of the experiments' runs.")
    parser.add_argument("--out", type=Path, default=_DOCS, help="Folder with doctor.md and results (default: docs).")
    arguments = parser.parse_args(words)
    rows = []
    for experiment in EXPERIMENTS:
        seed = arguments.work.absolute() / experiment.name / "seed0"
        folds = sorted(seed.glob("nnUNet_results/*/nnUNetTrainer???_beta0_*/fold_0/checkpoint_final.pth"))
        if folds:
            rows.append(row_of(experiment, _answer(experiment, seed, folds[0].parent)))
            sys.stderr.write(f"{experiment.name}: {rows[-1]['finding']}\n")
    path = arguments.out / "results" / "doctor.csv"
    kept = pd.read_csv(path)
    kept = kept[~kept["experiment"].isin([row["experiment"] for row in rows])]
    table = pd.concat([pd.DataFrame(rows), kept], ignore_index=True)
    with replacing(path) as partial:
        table.to_csv(partial, index=False, float_format="%.4g", lineterminator="\n")
    # The page shows what is in the file, rounded once.
    table = pd.read_csv(path)
    page = arguments.out / "doctor.md"
    before, rest = page.read_text(encoding="utf-8").split(START)
    with replacing(page) as partial:
        partial.write_text(before + markdown(table) + rest.split(END)[1], encoding="utf-8")
    return 0


def _answer(experiment: Recorded, seed: Path, fold: Path) -> Answer:
    import torch

    torch.set_num_threads(1)
    os.environ |= {name: str(seed / name) for name in ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results")}
    with progress_bar(experiment.title) as progress:
        return examine(fold, seed / "doctor", device="cpu", by=[experiment.by], progress=progress)[0]


if __name__ == "__main__":
    sys.exit(main())
