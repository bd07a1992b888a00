"""Train nnU-Net on the phantoms of one seed, and test the network on the way.

    python -m experiments.convergence.training --dataset D --configuration C --by B --seed 0 --trainer T \
        --iterations 8000 --at 800 4000 8000 --to FILE

Called by the experiment with nnU-Net's folders of that seed in the environment: nnU-Net reads them when it is imported.
"""

import argparse
import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.device import device_name
from experiments.nnunet_runs.study import PLANS_NAME
from experiments.nnunet_runs.train import set_seed
from nnunet_dro.files.output_folder import replacing

#: Iterations with the same learning rate, nnU-Net's epoch.
EPOCH = 100


def moments(iterations: int, settling: float) -> list[int]:
    """Iterations after which the network is tested: a tenth, halves of halves, and where the last part begins.

    Args:
        iterations: Length of the training.
        settling: The last part of the training that says whether it has converged, as a share of it.
    """
    halves = [iterations >> power for power in range(5)]
    return sorted({max(1, moment) for moment in (iterations // 10, round((1 - settling) * iterations), *halves)})


def train(
    trainer: Any, by_case: "pd.Series[str]", tests: Sequence["TestCase"], at: Sequence[int], *, seed: int
) -> dict[str, object]:
    """Train, and test on the way.

    Args:
        trainer: nnU-Net's trainer, initialised, with a number of epochs of `EPOCH` iterations.
        by_case: The stratum of every training case.
        tests: The test cases.
        at: Iterations after which the network is tested.
        seed: Seed of the draws and the augmentation.

    Returns:
        ``dice`` with rows of iteration, stratum, label, case and Dice in [0, 1]; ``share`` with rows of iteration,
        stratum and its share of the draws so far; and ``seconds`` of the processor.
    """
    from nnunet_dro.trainers.case_columns import CaseColumns

    start = time.process_time()
    loader, _ = trainer.get_dataloaders()
    strata = by_case.loc[list(trainer.hardness_log.table.cases)].to_numpy()
    set_seed(seed)
    iterations = trainer.num_epochs * EPOCH
    n_drawn = np.zeros(len(strata))
    dice: list[tuple[int, str, str, str, float]] = []
    share: list[tuple[int, str, float]] = []
    for done in range(1, iterations + 1):
        if (done - 1) % EPOCH == 0:
            trainer.network.train()
            trainer.lr_scheduler.step((done - 1) // EPOCH)
        batch = next(loader)
        np.add.at(n_drawn, CaseColumns.in_batch(batch).indices, 1)
        trainer.train_step(batch)
        if done in at:
            dice += [(done, *row) for row in _test(trainer, tests)]
            of_stratum = pd.Series(n_drawn / n_drawn.sum()).groupby(strata).sum()
            share += [(done, str(stratum), float(part)) for stratum, part in of_stratum.items()]
            trainer.network.train()
        if done % EPOCH == 0:
            sys.stdout.write(f"{done} of {iterations}\n")
            sys.stdout.flush()
    return {"dice": dice, "share": share, "seconds": time.process_time() - start}


class TestCase:
    """A test case, preprocessed as nnU-Net does before it predicts.

    Args:
        name: Its name.
        stratum: Its stratum.
        trainer: nnU-Net's trainer, initialised.
        raw: The raw dataset.
    """

    __test__ = False  # not one of pytest's

    def __init__(self, name: str, stratum: str, trainer: Any, raw: Path) -> None:
        self.name, self.stratum = name, stratum
        plans, configuration, dataset = trainer.plans_manager, trainer.configuration_manager, trainer.dataset_json
        preprocessor = configuration.preprocessor_class(verbose=False)
        ending = dataset["file_ending"]
        image, label_map = raw / "imagesTs" / f"{name}_0000{ending}", raw / "labelsTs" / f"{name}{ending}"
        self.image, self.reference, _ = preprocessor.run_case(
            [str(image)], str(label_map), plans, configuration, dataset
        )


def _test(trainer: Any, tests: Sequence[TestCase]) -> list[tuple[str, str, str, float]]:
    """Stratum, label, case and Dice of each label of each test case."""
    import torch
    from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor

    trainer.set_deep_supervision_enabled(False)
    trainer.network.eval()
    with contextlib.redirect_stdout(io.StringIO()):
        predictor = nnUNetPredictor(
            use_mirroring=False, perform_everything_on_device=True, device=trainer.device, allow_tqdm=False
        )
        predictor.manual_initialization(
            trainer.network, trainer.plans_manager, trainer.configuration_manager, None, trainer.dataset_json, "", None
        )
        rows = []
        for test in tests:
            logits = predictor.predict_sliding_window_return_logits(torch.as_tensor(np.asarray(test.image)))
            predicted, reference = logits.argmax(0).cpu().numpy(), np.asarray(test.reference)[0]
            for label, value in trainer.dataset_json["labels"].items():
                if value:
                    both, sizes = ((predicted == value) & (reference == value)).sum(), (predicted == value).sum()
                    total = sizes + (reference == value).sum()
                    rows.append((test.stratum, label, test.name, float(2 * both / total) if total else 1.0))
    trainer.set_deep_supervision_enabled(trainer.enable_deep_supervision)
    return rows


def main(words: Sequence[str] | None = None) -> None:
    """Train one network."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--dataset", required=True, help="Name of the dataset in nnU-Net's folders.")
    parser.add_argument("--configuration", required=True, help="Configuration of its plans.")
    parser.add_argument("--by", required=True, help="Column of the case tables with the strata.")
    parser.add_argument("--trainer", required=True, help="Name of the trainer, without its length.")
    parser.add_argument("--iterations", type=int, required=True, help=f"Length of the training, a multiple of {EPOCH}.")
    parser.add_argument("--at", type=int, nargs="+", required=True, help="Iterations after which it is tested.")
    parser.add_argument("--seed", type=int, required=True, help="Seed of the first weights, draws and augmentation.")
    parser.add_argument("--to", type=Path, required=True, help="JSON file for the result.")
    arguments = parser.parse_args(words)
    import torch

    from nnunet_dro.trainers.registry import trainer_class

    torch.set_num_threads(1)
    preprocessed = Path(os.environ["nnUNet_preprocessed"]) / arguments.dataset
    raw = Path(os.environ["nnUNet_raw"]) / arguments.dataset
    plans, dataset = (
        json.loads((preprocessed / f"{name}.json").read_text(encoding="utf-8")) for name in (PLANS_NAME, "dataset")
    )
    device = torch.device(device_name())
    name = f"{arguments.trainer}_{arguments.iterations // EPOCH}epochs_{EPOCH}iters"
    with contextlib.redirect_stdout(io.StringIO()):
        trainer: Any = trainer_class(name)(
            plans | {"continue_training": False}, arguments.configuration, 0, dataset, device
        )
        set_seed(arguments.seed)
        trainer.initialize()
    columns = {"case": str, arguments.by: str}
    of_test = pd.read_csv(raw / "test_cases.csv", dtype=columns)
    tests = [
        TestCase(case, stratum, trainer, raw)
        for case, stratum in zip(of_test["case"], of_test[arguments.by], strict=True)
    ]
    by_case = pd.read_csv(raw / "cases.csv", dtype=columns).set_index("case")[arguments.by]
    result = train(trainer, by_case, tests, arguments.at, seed=arguments.seed)
    with replacing(arguments.to) as partial:
        partial.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
