"""One training of nnU-Net with tests on the way.

It has a process of its own, because nnU-Net reads its folders from the environment when imported:

    python -m experiments.convergence.process TASK

with the fields of a `Task` in JSON, and nnU-Net's folders of that seed in the environment.
"""

import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.device import device_name
from experiments.nnunet_runs.data import PLANS_NAME
from experiments.nnunet_runs.train import set_seed
from nnunet_dro.files.output_folder import replacing, write_files

#: Columns of what a training gives: a Dice of a label of a test case, and a share of the draws.
DICE_COLUMNS = ("iteration", "stratum", "label", "case", "dice")
SHARE_COLUMNS = ("iteration", "stratum", "share")


@dataclass(frozen=True)
class Task:
    """What a process has to do: a training on a dataset, with tests."""

    dataset: str  # Name of the nnU-Net dataset.
    configuration: str  # The configuration that is trained.
    by: str  # Column of the case tables with the strata.
    trainer: str  # Name of the trainer, with its length.
    iterations: int  # That length.
    seed: int  # Seed of the data and the training.
    at: tuple[int, ...]  # Iterations to test after.
    folds: tuple[int, ...]  # Folds to train on, each a network of its own.
    held_out: bool  # Whether to test on the training cases that are not in the folds.
    to: str  # JSON file for the result.


#: Name, stratum, image and reference of a test case, preprocessed as nnU-Net does before it
#: predicts.
TestCase = tuple[str, str, Any, Any]


class _Data:
    """The dataset of a task, as nnU-Net's folders have it."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.raw = Path(os.environ["nnUNet_raw"]) / task.dataset
        self.preprocessed = Path(os.environ["nnUNet_preprocessed"]) / task.dataset
        self.cases = pd.read_csv(self.raw / "cases.csv", dtype=str)
        self.strata = self.cases.set_index("case")[task.by]

    def read(self, name: str) -> Any:
        """A JSON file of the preprocessed dataset."""
        return json.loads((self.preprocessed / f"{name}.json").read_text(encoding="utf-8"))

    def tests_of(self, trainer: Any) -> Iterator[TestCase]:
        """The test cases, as the network of a trainer sees them."""
        cases = pd.read_csv(self.raw / "test_cases.csv", dtype=str)
        return _tests(trainer, self.raw, cases, self.task.by, "Ts")

    def held_out_of(self, trainer: Any, fold: int) -> Iterator[TestCase]:
        """The training cases that are not in a fold, as the network of a trainer sees them."""
        train = self.read("splits_final")[fold]["train"]
        is_held_out = (self.cases["split"] == "train") & ~self.cases["case"].isin(train)
        return _tests(trainer, self.raw, self.cases[is_held_out], self.task.by, "Tr")


def main(task: Task) -> None:
    """Write the result that `make_run` returns."""
    import torch

    from nnunet_dro.trainers.registry import trainer_class

    torch.set_num_threads(1)
    data = _Data(task)
    trainer_type = trainer_class(task.trainer)

    # What a fold gives is kept until all are trained: a stopped training of folds goes on.
    paths = [Path(f"{task.to}.{trainer_type.__name__}-fold{fold}") for fold in task.folds]
    tests: list[TestCase] = []
    for fold, path in zip(task.folds, paths, strict=True):
        # Every network has weights, draws and augmentation of its own.
        seed = task.seed + 1000 * fold
        trainer = _initialised(trainer_type, data, fold, seed=seed)
        if task.held_out:
            tests = list(data.held_out_of(trainer, fold))
        elif not tests:
            tests = list(data.tests_of(trainer))
        if not path.exists():
            trained = _train(trainer, data.strata, tests, task.at, seed=seed)
            with replacing(path) as partial_file:
                torch.save({**trained, "weights": trainer.network.state_dict()}, partial_file)

    results = [torch.load(path, weights_only=True) for path in paths]
    weights = [result.pop("weights") for result in results]
    result = results[0]
    if task.held_out:
        result = {"dice": [row for result in results for row in result["dice"]]}
    elif len(task.folds) > 1:
        rows = _dice(trainer, tests, weights)
        result = _ensemble_result(results, [(task.iterations, *row) for row in rows])

    write_files(Path(task.to).parent, {Path(task.to).name: json.dumps(result)})
    for path in paths:
        path.unlink()


def _initialised(trainer_type: Any, data: _Data, fold: int, *, seed: int) -> Any:
    """A trainer with its first weights."""
    import torch

    with contextlib.redirect_stdout(io.StringIO()):
        trainer = trainer_type(
            data.read(PLANS_NAME) | {"continue_training": False},
            data.task.configuration,
            fold,
            data.read("dataset"),
            torch.device(device_name()),
        )
        set_seed(seed)
        trainer.initialize()
    return trainer


def _ensemble_result(
    results: Sequence[dict[str, Any]], dice: list[tuple[Any, ...]]
) -> dict[str, object]:
    """The result of networks that are tested together: their mean shares, and seconds in all."""
    rows = [row for result in results for row in result["share"]]
    shares = pd.DataFrame(rows, columns=SHARE_COLUMNS)
    sums = shares.groupby(["iteration", "stratum"])["share"].sum()
    means = sums / len(results)
    return {
        "dice": dice,
        "share": [(*place, share) for place, share in means.items()],
        "seconds": sum(result["seconds"] for result in results),
    }


def _tests(
    trainer: Any, raw: Path, cases: pd.DataFrame, by: str, ending_of_folders: str
) -> Iterator[TestCase]:
    plans = trainer.plans_manager
    configuration = trainer.configuration_manager
    dataset = trainer.dataset_json
    preprocessor = configuration.preprocessor_class(verbose=False)
    ending = dataset["file_ending"]
    for case, stratum in zip(cases["case"], cases[by], strict=True):
        image = raw / f"images{ending_of_folders}" / f"{case}_0000{ending}"
        label_map = raw / f"labels{ending_of_folders}" / f"{case}{ending}"
        preprocessed = preprocessor.run_case(
            [str(image)],
            str(label_map),
            plans,
            configuration,
            dataset,
        )
        yield case, stratum, preprocessed[0], preprocessed[1]


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
    shares: list[tuple[int, str, float]] = []
    for n_done in range(1, iterations + 1):
        if (n_done - 1) % epoch == 0:
            trainer.network.train()
            trainer.lr_scheduler.step((n_done - 1) // epoch)
        batch = next(loader)
        np.add.at(n_drawn, CaseColumns.in_batch(batch).indices, 1)
        trainer.train_step(batch)

        if n_done in at:
            dice += [(n_done, *row) for row in _dice(trainer, tests)]
            by_stratum = pd.Series(n_drawn / n_drawn.sum()).groupby(strata).sum()
            for stratum, share in by_stratum.items():
                shares.append((n_done, str(stratum), float(share)))
            trainer.network.train()
        if n_done % epoch == 0:
            sys.stdout.write(f"{n_done} of {iterations}\n")
            sys.stdout.flush()

    return {
        "dice": dice,
        "share": shares,
        "seconds": time.process_time() - start,
    }


def _dice(
    trainer: Any, tests: Sequence[TestCase], weights: "Sequence[dict[str, Any]] | None" = None
) -> list[tuple[str, str, str, float]]:
    """Stratum, label, case and Dice of each label of each test case.

    The prediction is that of the trainer's network, or of the ensemble of these weights.
    """
    import torch
    from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor

    trainer.set_deep_supervision_enabled(False)
    trainer.network.eval()
    rows = []
    with contextlib.redirect_stdout(io.StringIO()):
        predictor = nnUNetPredictor(
            use_mirroring=False,
            perform_everything_on_device=True,
            device=trainer.device,
            allow_tqdm=False,
        )
        predictor.manual_initialization(
            trainer.network,
            trainer.plans_manager,
            trainer.configuration_manager,
            weights or [trainer.network.state_dict()],
            trainer.dataset_json,
            "",
            None,
        )
        for case, stratum, image, label_map in tests:
            pixels = torch.as_tensor(np.asarray(image))
            logits = predictor.predict_logits_from_preprocessed_data(pixels)
            predicted = logits.argmax(0).cpu().numpy()
            reference = np.asarray(label_map)[0]
            for label, value in trainer.dataset_json["labels"].items():
                if value:
                    score = _dice_of(reference == value, predicted == value)
                    rows.append((stratum, label, case, score))

    trainer.set_deep_supervision_enabled(trainer.enable_deep_supervision)
    return rows


def _dice_of(reference: npt.NDArray[np.bool_], prediction: npt.NDArray[np.bool_]) -> float:
    """2 |A and B| / (|A| + |B|), and 1 where both are empty."""
    total = reference.sum() + prediction.sum()
    if total == 0:
        return 1.0
    return float(2 * (reference & prediction).sum() / total)


if __name__ == "__main__":
    main(Task(**json.loads(sys.argv[1])))
