"""Stands in for nnUNetv2_train: same arguments, same files, no network. What it does is in the
variable FAKE (JSON).

`crash`, `hang` and `empty` are lists of parts of trainers' names; `seconds` is the length of an
epoch; `usual` is a number of first trainings: a later one that is worse than the median of those before
takes a minute for its last epoch; `again` maps parts of names to the voxels that trainings outside of the
ordinary results find less.
"""

import itertools
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

#: Where the voxels begin in a NIfTI-1 file without extensions.
OFFSET = 352
N_VOXELS = 100


def quality(trainer: str) -> int:
    """Voxels that are found, of 100: most at beta 50."""
    beta = float(match[1]) if (match := re.search(r"_beta([\d.]+)", trainer)) else 100.0
    return max(0, round(100 - abs(beta - 50)))


def is_hopeless(trainers: list[str], n_usual: int | None) -> bool:
    """Whether the last of the trainers is worse than the median of those before."""
    *before, last = map(quality, trainers)
    if n_usual is None or len(before) < n_usual:
        return False
    before.sort()
    n = len(before)
    return last < (before[(n - 1) // 2] + before[n // 2]) / 2


def main() -> None:
    dataset, configuration, fold, *options = sys.argv[1:]
    given = dict(itertools.pairwise(options))
    trainer = given["-tr"]
    plans = given["-p"]
    fake = json.loads(os.environ.get("FAKE", "{}"))

    def is_one_of(kind: str) -> bool:
        return any(part in trainer for part in fake.get(kind, []))

    preprocessed = Path(os.environ["nnUNet_preprocessed"]) / dataset
    folder = (
        Path(os.environ["nnUNet_results"])
        / dataset
        / f"{trainer}__{plans}__{configuration}"
        / f"fold_{fold}"
    )
    folder.mkdir(parents=True, exist_ok=True)
    with (folder.parents[1] / "calls.txt").open("a") as calls:
        calls.write(
            " ".join([trainer, *(word for word in options if word.startswith("--"))]) + "\n"
        )
    print("training starts", flush=True)
    if is_one_of("crash"):
        print("RuntimeError: CUDA out of memory")
        sys.exit(1)
    if "--val" not in options:
        trainers = (folder.parents[1] / "calls.txt").read_text().split()
        waits = is_hopeless(trainers, fake.get("usual"))
        hangs = is_one_of("hang") and "--c" not in options
        train(folder, trainer, fake, hangs=hangs, waits=waits)
    is_again = "repeats" in folder.parts
    lost = sum(n for part, n in fake.get("again", {}).items() if is_again and part in trainer)
    if not is_one_of("empty"):
        validate(preprocessed, folder, quality(trainer) - lost)


def train(folder: Path, trainer: str, fake: dict, *, hangs: bool, waits: bool) -> None:
    n_epochs = int(re.search(r"_(\d+)epochs", trainer)[1])
    n_before = len(list(folder.glob("training_log_*.txt")))
    with (folder / f"training_log_2026_9_{n_before + 1}_01_02_03.txt").open("w") as log:
        for epoch in range(n_epochs):
            print(f"2026-09-01 01:02:03.5: Epoch {epoch} ", file=log, flush=True)
            is_last = epoch == n_epochs - 1
            time.sleep(60 if is_last and waits else fake.get("seconds", 0.0))
            dice = f"np.float32({quality(trainer) / 100}), nan"
            print(f"2026-09-01 01:02:03.6: Pseudo dice [{dice}] ", file=log, flush=True)
            (folder / "checkpoint_best.pth").touch()
            if hangs:
                worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
                (folder / "pids.txt").write_text(f"{os.getpid()} {worker.pid}")
                time.sleep(60)
    (folder / "checkpoint_final.pth").touch()


def validate(preprocessed: Path, folder: Path, found: int) -> None:
    (folder / "validation").mkdir(exist_ok=True)
    splits = json.loads((preprocessed / "splits_final.json").read_text())
    for case in splits[0]["val"]:
        content = bytearray((preprocessed / "gt_segmentations" / f"{case}.nii").read_bytes())
        n_found = found // (2 if case.startswith("b") else 1)
        content[OFFSET + n_found : OFFSET + N_VOXELS] = bytes(N_VOXELS - n_found)
        (folder / "validation" / f"{case}.nii").write_bytes(content)
    (folder / "validation" / "summary.json").write_text("{}")


if __name__ == "__main__":
    main()
