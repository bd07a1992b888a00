"""One training of nnU-Net with tests on the way, in a process of its own."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.nnunet_runs.runs import SeedRuns
from experiments.nnunet_runs.study import Study
from nnunet_dro.nnunet.command import run_command


@dataclass(frozen=True)
class Run:
    """One training and everything that determines it.

    Attributes:
        trainer: Name of the trainer without its length.
        seed: Seed of the data, the first weights, the draws and the augmentation.
        iterations: Length of the training.
    """

    trainer: str
    seed: int
    iterations: int


def make_run(work: Path, study: Study, name: str, run: Run, *, at: Sequence[int]) -> dict[str, object]:
    """Train and test, after the dataset of the seed has been prepared unless it has.

    nnU-Net is in a process of its own, because it reads its folders when it is imported.

    The network is tested after the iterations ``at``. Returns what `experiments.convergence.training.train` returns.
    """
    of_seed = SeedRuns(work / f"seed{run.seed}", study, run.seed)
    of_seed.prepare()
    log, result = work / "logs" / f"{name}.txt", work / "logs" / f"{name}.json"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)

    words = [Path(sys.executable).name, "-m", "experiments.convergence.training", "--dataset", study.dataset]
    words += ["--configuration", study.configuration, "--by", study.by, "--trainer", run.trainer]
    words += ["--iterations", str(run.iterations), "--at", *map(str, at)]
    words += ["--seed", str(run.seed), "--to", str(result)]
    run_command(words, environment=of_seed.environment, log=log)
    content: dict[str, object] = json.loads(result.read_text(encoding="utf-8"))
    return content
