"""Speed or solution: does a gain of robust training remain when plain training has converged?

    python -m experiments.convergence --work FOLDER [--slices] [--seeds 0 1 2] [--methods plain DRO] [--quick]
        [--out FOLDER]

nnU-Net is trained on phantoms with a rare pathology, on volumes or (2d) on their slices, eight times as long as in the
study of the phantoms, and tested on the way. A training takes about 15 minutes of a processor core. Finished runs are
kept in the work folder: an interrupted experiment continues where it stopped, and a second one may make other seeds at
the same time.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from experiments.convergence.page import page_text
from experiments.convergence.training import EPOCH
from experiments.curves import Roles, ScoredRun, differences, draw_curves, results_table, scores_of
from experiments.datasets.phantoms import SIZE, Counts, write_dataset
from experiments.nnunet_runs.plans import PARENT
from experiments.nnunet_runs.runs import SeedRuns
from experiments.nnunet_runs.study import Study
from experiments.record import cached_runs, experiment_parser, module_command, result_folder, write_result, write_table
from nnunet_dro.nnunet.command import run_command

#: The method that the others are compared with, and the one that is told the pathologies.
PLAIN, TOLD = "plain", "IW"
#: Method to the trainer's name without its length.
METHODS = {
    PLAIN: "nnUNetTrainerHWS_beta0",
    "DRO": "nnUNetTrainerDRO",
    TOLD: "nnUNetTrainerIW_pathology",
    "DRO_IS": "nnUNetTrainerDRO_IS",
    "cvar0.1": "nnUNetTrainerHWS_cvar0.1",
}
ITERATIONS, QUICK_ITERATIONS = 8000, EPOCH


@dataclass(frozen=True)
class Run:
    """One training and everything that determines it.

    Attributes:
        trainer: Name of the trainer without its length.
        seed: Seed of the phantoms, the first weights, the draws and the augmentation.
        iterations: Length of the training.
    """

    trainer: str
    seed: int
    iterations: int


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = experiment_parser("convergence", str(__doc__).splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, help="Folder for the data and the finished runs.")
    parser.add_argument("--seeds", type=int, nargs="+", help="Seeds to run (default: 0 to 4; with --quick 0).")
    parser.add_argument("--methods", nargs="+", choices=tuple(METHODS), help="Methods to run (default: all).")
    parser.add_argument("--slices", action="store_true", help="Train nnU-Net's 2d configuration, on slices.")
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    seeds = arguments.seeds or ([0] if arguments.quick else list(range(5)))
    methods = dict.fromkeys([PLAIN, *(arguments.methods or METHODS)])
    study = convergence_study(quick=arguments.quick, slices=arguments.slices)
    roles = roles_in(study)
    iterations = QUICK_ITERATIONS if arguments.quick else ITERATIONS
    kind = "slices" if arguments.slices else "phantoms"
    work = (arguments.work / (f"quick-{kind}" if arguments.quick else kind)).absolute()
    runs = {f"{method}-seed{seed}": Run(METHODS[method], seed, iterations) for seed in seeds for method in methods}
    make = _maker(work, study, runs)
    made = cached_runs(work / "finished", {name: asdict(run) for name, run in runs.items()}, make)
    scores = scores_of(ScoredRun.of(name, runs[name], content) for name, content in made.items())
    folder = result_folder(arguments.out, quick=arguments.quick)
    write_table(folder / f"{study.name}-all.csv", scores, float_format="%.4f")
    # The page shows what is in the file, rounded once.
    scores = pd.read_csv(folder / f"{study.name}-all.csv")
    found = differences(scores, roles)
    n_train = study.settings["train"]
    shown = found[found["label"] == roles.label]
    page = write_result(
        folder,
        study.name,
        title=study.title,
        text=page_text(found, scores, roles, study=study, iterations=iterations, seeds=seeds),
        table=results_table(shown, roles),
        figure=draw_curves(scores, roles, n_train, logarithmic=True),  # type: ignore[arg-type]
        command=module_command("experiments.convergence", argv),
        seeds=seeds,
        quick=arguments.quick,
        seconds=sum(content["seconds"] for content in made.values()),
    )
    sys.stdout.write(f"{page}\n")


def roles_in(study: Study) -> Roles:
    """What the methods and the strata are."""
    return Roles(PLAIN, TOLD, common=study.common, rare=study.rare, label=study.labels[0])


def convergence_study(*, quick: bool, slices: bool) -> Study:
    """The phantoms of `experiments.segmentation`, and nnU-Net's runs on them."""
    counts = Counts({"control": 456, "common": 120, "rare": 24}, validation=4, test=40)
    if quick:
        counts = Counts({"control": 8, "common": 4, "rare": 2}, validation=1, test=3)

    def write(folder: Path, rng: np.random.Generator) -> None:
        write_dataset(folder, counts, rng=rng)

    return Study(
        name="convergence-slices" if slices else "convergence",
        title=f"Speed or solution: {'slices of phantoms' if slices else 'phantoms'}",
        dataset="Dataset911_PhantomSlices" if slices else "Dataset910_Phantoms",
        by="pathology",
        rare=("rare",),
        common=("control", "common"),
        labels=("cerebellum",),
        epochs=1,
        iterations=1,
        write=write,
        settings={"train": dict(counts.train), "test": counts.test, "size": SIZE},
        about="",
        trainers=METHODS,
        parent="2d" if slices else PARENT,
    )


def _maker(
    work: Path, study: Study, runs: dict[str, Run]
) -> Callable[[str, Callable[[float], None]], dict[str, object]]:
    """What makes a run: nnU-Net in a process of its own, because it reads its folders when it is imported."""

    def make(name: str, progress: Callable[[float], None]) -> dict[str, object]:
        run = runs[name]
        of_seed = SeedRuns(work / f"seed{run.seed}", study, run.seed)
        of_seed.prepare(Console(stderr=True))
        log, result = work / "logs" / f"{name}.txt", work / "logs" / f"{name}.json"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)

        def show() -> None:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
            done = [line.split()[0] for line in lines if line.endswith(f" of {run.iterations}")]
            progress(int(done[-1]) / run.iterations if done else 0.0)

        words = [Path(sys.executable).name, "-m", "experiments.convergence.training", "--dataset", study.dataset]
        words += ["--configuration", study.configuration, "--by", study.by, "--trainer", run.trainer]
        words += ["--iterations", str(run.iterations)]
        words += ["--seed", str(run.seed), "--to", str(result)]
        run_command(words, environment=of_seed.environment, log=log, while_running=show)
        content: dict[str, object] = json.loads(result.read_text(encoding="utf-8"))
        return content

    return make


if __name__ == "__main__":
    main()
