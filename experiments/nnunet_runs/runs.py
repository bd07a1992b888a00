"""The runs of a study on the dataset of one seed: each method trained, predicted and evaluated."""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pandas as pd
from filelock import FileLock

from experiments.device import device_name
from experiments.nnunet_runs.study import PLANS_NAME, Study
from nnunet_dro.evaluation import evaluate
from nnunet_dro.files.output_folder import write_files
from nnunet_dro.nnunet.command import run_command
from nnunet_dro.trainers.installation import FOLDER


@dataclass(frozen=True)
class SeedRuns:
    """All runs on the dataset of one seed, which draws the data, the first weights and what trainings draw."""

    folder: Path  # Folder of everything that is made.
    study: Study  # The study.
    seed: int  # Seed of the dataset and the trainings.

    @property
    def raw(self) -> Path:
        """The raw dataset."""
        return self.folder / "nnUNet_raw" / self.study.dataset

    @property
    def preprocessed(self) -> Path:
        """The preprocessed dataset."""
        return self.folder / "nnUNet_preprocessed" / self.study.dataset

    def fold(self, method: str) -> Path:
        """The folder into which nnU-Net writes the trained model."""
        model = f"{self.study.trainer(method)}__{PLANS_NAME}__{self.study.configuration}"
        return (
            self.folder
            / "nnUNet_results"
            / self.study.dataset
            / model
            / f"fold_{self.study.fold_of(method)}"
        )

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of all commands.

        One thread and no workers, which take the cores from the network.
        """
        names = ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results")
        repository = str(Path(__file__).parents[2])
        return {
            **{name: str(self.folder / name) for name in names},
            "nnUNet_def_n_proc": "1",
            "nnUNet_n_proc_DA": "0",
            "nnUNet_compile": "false",
            # The trainers of this package's version, whichever was there when it was installed.
            "nnUNet_extTrainer": os.pathsep.join(map(str, (FOLDER, *self.study.trainer_folders))),
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, (repository, os.environ.get("PYTHONPATH")))),
        }

    def prepare(self) -> None:
        """Write, plan and preprocess the dataset, unless that is done.

        Another process that is at it is waited for.
        """
        for name in ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / "prepare.lock"):
            if not (self.preprocessed / f"{PLANS_NAME}.json").exists():
                self._prepare()

    def _prepare(self) -> None:
        if not self.raw.is_dir():
            self.study.write(self.raw, np.random.default_rng(self.seed))
        number = self.study.dataset[len("Dataset") :][:3]
        plan: tuple[str, ...] = (
            "nnUNetv2_plan_and_preprocess",
            "-d",
            number,
            "-c",
            self.study.network.parent,
        )
        plan += ("--no_pbar", "-npfp", "2", "-np", "2")
        # The planner wants the number of workers, and fails with none.
        self._command(plan, "plan", nnUNet_n_proc_DA="2", nnUNet_def_n_proc="2")
        plans = json.loads((self.preprocessed / "nnUNetPlans.json").read_text(encoding="utf-8"))
        # The plans come last: they say that the dataset is ready.
        for name, content in (
            ("splits_final", self._splits()),
            (PLANS_NAME, self.study.small_plans(plans)),
        ):
            write_files(self.preprocessed, {f"{name}.json": json.dumps(content, indent=2)})

    def _splits(self) -> list[dict[str, list[str]]]:
        """nnU-Net's folds, in the order of `Study.fold_of`; all have the same validation cases."""
        table = pd.read_csv(self.raw / "cases.csv", dtype=str)
        train, validation = (
            sorted(table["case"][table["split"] == name]) for name in ("train", "validation")
        )
        subsets = [train, *(sorted(cases(self.raw)) for cases in self.study.subsets.values())]
        return [{"train": cases, "val": validation} for cases in subsets]

    def run(self, method: str) -> dict[str, Any]:
        """Train a method, predict the test cases and evaluate them by stratum.

        A half-done run starts anew.
        """
        self.prepare()
        start = monotonic()
        fold = self.fold(method)
        predictions = self.folder / "predictions" / method
        for folder in (fold, predictions):
            shutil.rmtree(folder, ignore_errors=True)
        times = self.folder / "times" / f"{method}.json"
        times.parent.mkdir(exist_ok=True)
        model = ("-tr", self.study.trainer(method), "-p", PLANS_NAME)
        number = str(self.study.fold_of(method))
        train: tuple[str, ...] = (
            Path(sys.executable).name,
            "-m",
            "experiments.nnunet_runs.train",
            self.study.dataset,
        )
        train += (
            self.study.configuration,
            number,
            *model,
            "--seed",
            str(self.seed),
            "--times",
            str(times),
        )
        if method in self.study.sources:
            train += ("--from", str(self.fold(self.study.sources[method])))
        predict: tuple[str, ...] = (
            "nnUNetv2_predict",
            "-d",
            self.study.dataset,
            "-c",
            self.study.configuration,
        )
        predict += ("-f", number, *model, "-i", str(self.raw / "imagesTs"), "-o", str(predictions))
        predict += ("-device", device_name())
        # No processes for preprocessing and export: each takes longer to start than these few cases
        # take.
        predict += ("--disable_tta", "-npp", "0", "-nps", "0", "--disable_progress_bar")
        self._command(train, f"train_{method}")
        self._command(predict, f"predict_{method}")
        return {
            "dice": self._dice(predictions),
            "seconds": monotonic() - start,
            "cpu_seconds": json.loads(times.read_text(encoding="utf-8"))["cpu_seconds"],
        }

    def _dice(self, predictions: Path) -> dict[str, list[Any]]:
        evaluation = evaluate(
            self.raw / "labelsTs",
            predictions,
            dataset_json=self.raw / "dataset.json",
            cases=self.raw / "test_cases.csv",
            by=[self.study.by],
            overall=False,
            n_resamples=0,
            jobs=1,
        )
        scores = evaluation.scores[["case", "label", "dice"]].astype({"label": str})
        strata = evaluation.stratum_of_case[self.study.by].astype(str)
        return {
            str(name): of.tolist()
            for name, of in scores.assign(stratum=scores["case"].map(strata)).items()
        }

    def _command(self, arguments: Sequence[str], log: str, **environment: str) -> None:
        path = self.folder / "logs" / f"{log}.txt"
        path.unlink(missing_ok=True)
        run_command(arguments, environment=self.environment | environment, log=path)
