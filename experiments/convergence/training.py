"""One training of nnU-Net with tests on the way, in a process of its own.

NnU-Net reads its folders when imported.

    python -m experiments.convergence.training ARGUMENTS

with the keyword arguments of `main` in JSON, and nnU-Net's folders of that seed in the environment.
"""

import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from filelock import FileLock

from experiments.datasets.division import (
    FOLDS,
    HELD_OUT,
    HELD_OUT_LENGTH,
    SHUFFLED,
    held_out_weights,
    shuffled,
)
from experiments.device import device_name
from experiments.nnunet_runs.runs import SeedRuns
from experiments.nnunet_runs.study import PLANS_NAME, Study
from experiments.nnunet_runs.train import set_seed
from nnunet_dro.files.output_folder import replacing, write_files
from nnunet_dro.nnunet.command import run_command

#: Iterations with the same learning rate, nnU-Net's epoch, and the only ones of a smoke run.
EPOCH = 100
QUICK = 10


@dataclass(frozen=True)
class Run:
    """One training and everything that determines it."""

    trainer: str  # Name of the trainer without its length.
    seed: int  # Seed of the data, the first weights, the draws and the augmentation.
    iterations: int  # Length of the training, a multiple of `EPOCH` or `QUICK`.


def moments(iterations: int, settling: float) -> list[int]:
    """Iterations to test after.

    A tenth, halves of halves, and where the last part begins, which shows convergence.
    """
    halves = [iterations >> power for power in range(5)]
    return sorted(
        {
            max(1, moment)
            for moment in (iterations // 10, round((1 - settling) * iterations), *halves)
        }
    )


def make_run(
    work: Path, study: Study, name: str, run: Run, *, at: Sequence[int], folds: Sequence[int] = (0,)
) -> dict[str, object]:
    """Train, and test after these iterations, several folds as an ensemble at the end.

    The dataset is prepared before.

    Returned are rows ``dice`` (iteration, stratum, label, case, Dice in [0, 1]), rows ``share``
    (iteration, stratum, its share of the draws so far) and the processor's ``seconds``.
    """
    subsets = {f"fold {fold}": partial(_cases_of_fold, fold) for fold in range(FOLDS)}
    of_seed = SeedRuns(work / f"seed{run.seed}", replace(study, subsets=subsets), run.seed)
    of_seed.prepare()
    _add_to_cases(of_seed, SHUFFLED, _shuffled)
    if HELD_OUT in run.trainer:
        _add_to_cases(of_seed, HELD_OUT, partial(_held_out_weights, work, run=run))
    return _in_a_process(work, of_seed, name, run, at=list(at), folds=list(folds))


def _cases_of_fold(fold: int, raw: Path) -> list[str]:
    table = pd.read_csv(raw / "cases.csv", dtype=str)
    cases = sorted(table["case"][table["split"] == "train"])
    return [case for place, case in enumerate(cases) if place % FOLDS != fold]


def _in_a_process(
    work: Path, of_seed: SeedRuns, name: str, run: Run, **arguments: object
) -> dict[str, Any]:
    log = work / "logs" / f"{name}.txt"
    result = work / "logs" / f"{name}.json"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    study = of_seed.study
    arguments |= {"dataset": study.dataset, "configuration": study.configuration, "by": study.by}
    arguments |= {
        "trainer": run.trainer,
        "iterations": run.iterations,
        "seed": run.seed,
        "to": str(result),
    }
    words = [
        Path(sys.executable).name,
        "-m",
        "experiments.convergence.training",
        json.dumps(arguments),
    ]
    run_command(words, environment=of_seed.environment, log=log)
    return json.loads(result.read_text(encoding="utf-8"))


def _add_to_cases(
    of_seed: SeedRuns, column: str, of_cases: Callable[[SeedRuns, pd.DataFrame], pd.Series]
) -> None:
    """Give the trainers a column of the training cases, in the case table of the preprocessed dataset."""
    path = of_seed.preprocessed / "cases.csv"

    def table() -> pd.DataFrame:
        return pd.read_csv(path if path.exists() else of_seed.raw / "cases.csv", dtype=str)

    if column in (before := table()):
        return
    # Other trainings of the seed, which may begin at the same time, do not wait for this.
    values = of_cases(of_seed, before[before["split"] == "train"])
    with FileLock(of_seed.folder / "cases.lock"), replacing(path) as partial_file:
        table().assign(**{column: values}).to_csv(partial_file, index=False)


def _shuffled(of_seed: SeedRuns, train: pd.DataFrame) -> pd.Series:
    return pd.Series(shuffled(train[of_seed.study.by].to_list(), of_seed.seed), train.index)


def _held_out_weights(work: Path, of_seed: SeedRuns, train: pd.DataFrame, *, run: Run) -> pd.Series:
    """`held_out_weights` of a plain cross-validation."""
    iterations = max(
        min(EPOCH, run.iterations), round(HELD_OUT_LENGTH * run.iterations / EPOCH) * EPOCH
    )
    plain = Run("nnUNetTrainerHWS_beta0", run.seed, iterations)
    folds = list(range(1, FOLDS + 1))
    name = f"{HELD_OUT}-seed{run.seed}"
    content = _in_a_process(work, of_seed, name, plain, at=[iterations], folds=folds, held_out=True)
    dice = pd.DataFrame(content["dice"]).groupby(3)[4].mean().loc[train["case"]]
    return pd.Series(held_out_weights(dice.to_numpy()), train.index)


def main(
    *,
    dataset: str,
    configuration: str,
    by: str,
    trainer: str,
    iterations: int,
    at: Sequence[int],
    folds: Sequence[int],
    seed: int,
    to: str,
    held_out: bool = False,
) -> None:
    """Write the result that `make_run` returns.

    With ``held_out``, of the training cases that are not in the folds.
    """
    import torch

    from nnunet_dro.trainers.registry import trainer_class

    torch.set_num_threads(1)
    preprocessed, raw = (
        Path(os.environ[f"nnUNet_{name}"]) / dataset for name in ("preprocessed", "raw")
    )
    plans, about = (
        json.loads((preprocessed / f"{name}.json").read_text(encoding="utf-8"))
        for name in (PLANS_NAME, "dataset")
    )
    made_by: Any = trainer_class(
        f"{trainer}_{max(1, iterations // EPOCH)}epochs_{min(EPOCH, iterations)}iters"
    )
    table = pd.read_csv(raw / "cases.csv", dtype=str)
    strata = table.set_index("case")[by]
    test_table = pd.read_csv(raw / "test_cases.csv", dtype=str)
    tests: list[TestCase] = []
    kept = [Path(f"{to}.{made_by.__name__}-fold{fold}") for fold in folds]
    for fold, path in zip(folds, kept, strict=True):
        # Every network has weights, draws and augmentation of its own.
        of_fold = seed + 1000 * fold
        with contextlib.redirect_stdout(io.StringIO()):
            made = made_by(
                plans | {"continue_training": False},
                configuration,
                fold,
                about,
                torch.device(device_name()),
            )
            set_seed(of_fold)
            made.initialize()
        if held_out:
            splits = json.loads((preprocessed / "splits_final.json").read_text(encoding="utf-8"))
            is_out = (table["split"] == "train") & ~table["case"].isin(splits[fold]["train"])
            tests = list(_tests(made, raw, table[is_out], by, "Tr"))
        else:
            tests = tests or list(_tests(made, raw, test_table, by, "Ts"))
        if not path.exists():
            trained = _train(made, strata, tests, at, seed=of_fold)
            with replacing(path) as partial_file:
                torch.save({**trained, "weights": made.network.state_dict()}, partial_file)
    results = [torch.load(path, weights_only=True) for path in kept]
    weights = [result.pop("weights") for result in results]
    result = results[0]
    if held_out:
        result = {"dice": [row for of in results for row in of["dice"]]}
    elif len(folds) > 1:
        shares = pd.DataFrame([row for of in results for row in of["share"]]).groupby([0, 1])[
            2
        ].sum() / len(folds)
        result = {
            "dice": [(iterations, *row) for row in _dice(made, tests, weights)],
            "share": [(*place, share) for place, share in shares.items()],
            "seconds": sum(of["seconds"] for of in results),
        }
    write_files(Path(to).parent, {Path(to).name: json.dumps(result)})
    for path in kept:
        path.unlink()


#: Name, stratum, image and reference of a test case, preprocessed as nnU-Net does before it
#: predicts.
TestCase = tuple[str, str, Any, Any]


def _tests(
    trainer: Any, raw: Path, table: pd.DataFrame, by: str, ending_of_folders: str
) -> Iterator[TestCase]:
    plans = trainer.plans_manager
    configuration = trainer.configuration_manager
    dataset = trainer.dataset_json
    preprocessor = configuration.preprocessor_class(verbose=False)
    ending = dataset["file_ending"]
    for name, stratum in zip(table["case"], table[by], strict=True):
        image = raw / f"images{ending_of_folders}" / f"{name}_0000{ending}"
        label_map = raw / f"labels{ending_of_folders}" / f"{name}{ending}"
        case = preprocessor.run_case([str(image)], str(label_map), plans, configuration, dataset)
        yield name, stratum, case[0], case[1]


def _train(
    trainer: Any,
    by_case: "pd.Series[str]",
    tests: Sequence[TestCase],
    at: Sequence[int],
    *,
    seed: int,
) -> dict[str, object]:
    from nnunet_dro.trainers.case_columns import CaseColumns

    start = time.process_time()
    loader, _ = trainer.get_dataloaders()
    strata = by_case.loc[list(trainer.hardness_log.table.cases)].to_numpy()
    set_seed(seed)
    epoch = trainer.num_iterations_per_epoch
    iterations = trainer.num_epochs * epoch
    n_drawn = np.zeros(len(strata))
    dice: list[tuple[int, str, str, str, float]] = []
    share: list[tuple[int, str, float]] = []
    for done in range(1, iterations + 1):
        if (done - 1) % epoch == 0:
            trainer.network.train()
            trainer.lr_scheduler.step((done - 1) // epoch)
        batch = next(loader)
        np.add.at(n_drawn, CaseColumns.in_batch(batch).indices, 1)
        trainer.train_step(batch)
        if done in at:
            dice += [(done, *row) for row in _dice(trainer, tests)]
            of_stratum = pd.Series(n_drawn / n_drawn.sum()).groupby(strata).sum()
            share += [(done, str(stratum), float(part)) for stratum, part in of_stratum.items()]
            trainer.network.train()
        if done % epoch == 0:
            sys.stdout.write(f"{done} of {iterations}\n")
            sys.stdout.flush()
    return {"dice": dice, "share": share, "seconds": time.process_time() - start}


def _dice(
    trainer: Any, tests: Sequence[TestCase], weights: "Sequence[dict[str, Any]] | None" = None
) -> list[tuple[str, str, str, float]]:
    """Stratum, label, case and Dice of each label of each test case, of the ensemble of these weights, if given."""
    import torch
    from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor

    trainer.set_deep_supervision_enabled(False)
    trainer.network.eval()
    with contextlib.redirect_stdout(io.StringIO()):
        predictor = nnUNetPredictor(
            use_mirroring=False,
            perform_everything_on_device=True,
            device=trainer.device,
            allow_tqdm=False,
        )
        managers = (trainer.plans_manager, trainer.configuration_manager)
        weights = weights or [trainer.network.state_dict()]
        predictor.manual_initialization(
            trainer.network, *managers, weights, trainer.dataset_json, "", None
        )
        rows = []
        for name, stratum, image, of_case in tests:
            logits = predictor.predict_logits_from_preprocessed_data(
                torch.as_tensor(np.asarray(image))
            )
            predicted = logits.argmax(0).cpu().numpy()
            reference = np.asarray(of_case)[0]
            for label, value in trainer.dataset_json["labels"].items():
                if value:
                    both = ((predicted == value) & (reference == value)).sum()
                    sizes = (predicted == value).sum()
                    total = sizes + (reference == value).sum()
                    rows.append((stratum, label, name, float(2 * both / total) if total else 1.0))
    trainer.set_deep_supervision_enabled(trainer.enable_deep_supervision)
    return rows


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
