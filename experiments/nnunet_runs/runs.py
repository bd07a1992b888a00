"""Trainings of nnU-Net on the dataset of one seed, each predicted and evaluated."""

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
from experiments.nnunet_runs.data import PLANS_NAME, Data
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
    data: Data  # What the dataset is.
    seed: int  # Seed of the dataset and the trainings.
    #: Folders in which nnU-Net looks for trainers beside those of this package.
    trainer_folders: tuple[Path, ...] = ()

    @property
    def raw(self) -> Path:
        """The raw dataset."""
        return self.folder / "nnUNet_raw" / self.data.dataset

    @property
    def preprocessed(self) -> Path:
        """The preprocessed dataset."""
        return self.folder / "nnUNet_preprocessed" / self.data.dataset

    def fold(self, trainer: str, number: int = 0) -> Path:
        """The folder into which nnU-Net writes a trained model."""
        model = f"{trainer}__{PLANS_NAME}__{self.data.network.configuration}"
        results = self.folder / "nnUNet_results" / self.data.dataset
        return results / model / f"fold_{number}"

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
            "nnUNet_extTrainer": os.pathsep.join(map(str, (FOLDER, *self.trainer_folders))),
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
            self.data.write(self.raw, np.random.default_rng(self.seed))
        number = self.data.dataset[len("Dataset") :][:3]
        words = ("nnUNetv2_plan_and_preprocess", "-d", number, "-c", self.data.network.parent)
        plan = (*words, "--no_pbar", "-npfp", "2", "-np", "2")
        # The planner wants the number of workers, and fails with none.
        self._command(plan, "plan", nnUNet_n_proc_DA="2", nnUNet_def_n_proc="2")
        plans = json.loads((self.preprocessed / "nnUNetPlans.json").read_text(encoding="utf-8"))
        # The plans come last: they say that the dataset is ready.
        for name, content in (
            ("splits_final", self._splits()),
            (PLANS_NAME, self.data.network.small_plans(plans)),
        ):
            write_files(self.preprocessed, {f"{name}.json": json.dumps(content, indent=2)})

    def _splits(self) -> list[dict[str, list[str]]]:
        """nnU-Net's folds: all cases, then `Data.folds`. They have the same validation cases."""
        table = pd.read_csv(self.raw / "cases.csv", dtype=str)
        train = sorted(table["case"][table["split"] == "train"])
        validation = sorted(table["case"][table["split"] == "validation"])
        subsets = [sorted(name_cases(self.raw)) for name_cases in self.data.folds]
        return [{"train": cases, "val": validation} for cases in (train, *subsets)]

    def run(self, name: str, model: Path, source: Path | None = None) -> dict[str, Any]:
        """Train a `fold`, predict the test cases and evaluate them by stratum.

        A half-done run starts anew. The training starts from the model of ``source``, or from
        random weights.
        """
        self.prepare()
        start = monotonic()
        predictions = self.folder / "predictions" / name
        for folder in (model, predictions):
            shutil.rmtree(folder, ignore_errors=True)
        times = self.folder / "times" / f"{name}.json"
        times.parent.mkdir(exist_ok=True)

        trainer = model.parent.name.split("__")[0]
        fold = model.name.removeprefix("fold_")
        words = [Path(sys.executable).name, "-m", "experiments.nnunet_runs.train"]
        words += [self.data.dataset, self.data.network.configuration, fold]
        words += ["-tr", trainer, "-p", PLANS_NAME, "--seed", str(self.seed), "--times", str(times)]
        if source is not None:
            words += ["--from", str(source)]
        self._command(words, f"train_{name}")

        words = ["nnUNetv2_predict", "-d", self.data.dataset, "-f", fold]
        words += ["-c", self.data.network.configuration, "-tr", trainer, "-p", PLANS_NAME]
        words += ["-i", str(self.raw / "imagesTs"), "-o", str(predictions)]
        # No processes for preprocessing and export: each takes longer to start than these few cases
        # take.
        words += ["--disable_tta", "-npp", "0", "-nps", "0", "--disable_progress_bar"]
        words += ["-device", device_name()]
        self._command(words, f"predict_{name}")
        return {
            "dice": self._dice(predictions),
            "seconds": monotonic() - start,
            "cpu_seconds": json.loads(times.read_text(encoding="utf-8"))["cpu_seconds"],
        }

    def _dice(self, predictions: Path) -> dict[str, list[Any]]:
        """The columns case, label, dice and stratum of the test cases."""
        evaluation = evaluate(
            self.raw / "labelsTs",
            predictions,
            dataset_json=self.raw / "dataset.json",
            cases=self.raw / "test_cases.csv",
            by=[self.data.by],
            overall=False,
            n_resamples=0,
            jobs=1,
        )
        scores = evaluation.scores[["case", "label", "dice"]].astype({"label": str})
        strata = evaluation.stratum_of_case[self.data.by].astype(str)
        scores = scores.assign(stratum=scores["case"].map(strata))
        return {str(name): column.tolist() for name, column in scores.items()}

    def _command(self, arguments: Sequence[str], log: str, **environment: str) -> None:
        path = self.folder / "logs" / f"{log}.txt"
        path.unlink(missing_ok=True)
        run_command(arguments, environment=self.environment | environment, log=path)
