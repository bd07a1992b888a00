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
    """All runs on the dataset of one seed.

    The seed draws the data, the first weights and what trainings draw.
    """

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
        results = self.folder / "nnUNet_results" / self.study.dataset
        return results / model / f"fold_{self.study.fold_of(method)}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of all commands.

        One thread and no workers, which take the cores from the network.
        """
        python_path = str(Path(__file__).parents[2])
        if os.environ.get("PYTHONPATH"):
            python_path += os.pathsep + os.environ["PYTHONPATH"]
        return {
            "nnUNet_raw": str(self.folder / "nnUNet_raw"),
            "nnUNet_preprocessed": str(self.folder / "nnUNet_preprocessed"),
            "nnUNet_results": str(self.folder / "nnUNet_results"),
            "nnUNet_def_n_proc": "1",
            "nnUNet_n_proc_DA": "0",
            "nnUNet_compile": "false",
            # The trainers of this package's version, whichever was there when it was installed.
            "nnUNet_extTrainer": os.pathsep.join(map(str, (FOLDER, *self.study.trainer_folders))),
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": python_path,
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
        words = ("nnUNetv2_plan_and_preprocess", "-d", number, "-c", self.study.network.parent)
        plan = (*words, "--no_pbar", "-npfp", "2", "-np", "2")
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
        train = sorted(table["case"][table["split"] == "train"])
        validation = sorted(table["case"][table["split"] == "validation"])
        subsets = [sorted(name_cases(self.raw)) for name_cases in self.study.subsets.values()]
        return [{"train": cases, "val": validation} for cases in (train, *subsets)]

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

        self._command(self._training(method, times), f"train_{method}")
        self._command(self._prediction(method, predictions), f"predict_{method}")
        return {
            "dice": self._dice(predictions),
            "seconds": monotonic() - start,
            "cpu_seconds": json.loads(times.read_text(encoding="utf-8"))["cpu_seconds"],
        }

    def _training(self, method: str, times: Path) -> list[str]:
        """The command that trains a method and writes its processor time."""
        words = [Path(sys.executable).name, "-m", "experiments.nnunet_runs.train"]
        words += [self.study.dataset, self.study.configuration, str(self.study.fold_of(method))]
        words += ["-tr", self.study.trainer(method), "-p", PLANS_NAME]
        words += ["--seed", str(self.seed), "--times", str(times)]
        if method in self.study.sources:
            words += ["--from", str(self.fold(self.study.sources[method]))]
        return words

    def _prediction(self, method: str, folder: Path) -> list[str]:
        """The command that predicts the test cases into a folder."""
        words = ["nnUNetv2_predict", "-d", self.study.dataset, "-c", self.study.configuration]
        words += ["-f", str(self.study.fold_of(method))]
        words += ["-tr", self.study.trainer(method), "-p", PLANS_NAME]
        words += ["-i", str(self.raw / "imagesTs"), "-o", str(folder), "-device", device_name()]
        # No processes for preprocessing and export: each takes longer to start than these few cases
        # take.
        words += ["--disable_tta", "-npp", "0", "-nps", "0", "--disable_progress_bar"]
        return words

    def _dice(self, predictions: Path) -> dict[str, list[Any]]:
        """The columns case, label, dice and stratum of the test cases."""
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
        scores = scores.assign(stratum=scores["case"].map(strata))
        return {str(name): column.tolist() for name, column in scores.items()}

    def _command(self, arguments: Sequence[str], log: str, **environment: str) -> None:
        path = self.folder / "logs" / f"{log}.txt"
        path.unlink(missing_ok=True)
        run_command(arguments, environment=self.environment | environment, log=path)
