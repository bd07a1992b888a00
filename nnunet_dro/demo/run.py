"""The steps of the demo, from raw images to a table.

A second run continues where the first one stopped.
"""

import json
import os
import shlex
import shutil
from collections import Counter
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import cpu_count
from rich.console import Console

from nnunet_dro.demo.dataset import DATASET_NAME, build_dataset
from nnunet_dro.demo.preparation import PLANS_NAME, Settings, claim, small_plans
from nnunet_dro.demo.results import BY, METRIC, commands, compare_methods, results_table
from nnunet_dro.demo.steps import Step, carry_out, steps_progress, together
from nnunet_dro.files.case_table import CASE_TABLE_FILE, read_cases
from nnunet_dro.files.output_folder import replacing
from nnunet_dro.nnunet.command import Device
from nnunet_dro.nnunet.folders import SPLITS_FILE, fold_folder
from nnunet_dro.nnunet.training import read_epochs

_ABOUT_THE_DATA = (
    "The images show one real anatomy (ICBM 2009a MRI template); the deformations and the protocols A, B and C, which "
    "are equally frequent in the test, are simulated. This demonstrates the method on small networks and is no "
    "clinical evidence."
)


def run_demo(
    out: Path, settings: Settings, *, device: Device = Device.CPU, console: Console | None = None
) -> pd.DataFrame:
    """Train plain nnU-Net and the robust trainer for the same time, and compare their Dice on held-out cases."""
    trainer = settings.trainer
    try:
        names = settings.trainers
    except AttributeError as error:
        raise ValueError(
            f"`trainer` must be one of `nnunet-dro trainers`, got {trainer!r}. Choose one."
        ) from error
    if names["ERM"] == names["DRO"]:
        raise ValueError(
            f"`trainer` must differ from plain nnU-Net, got {trainer!r}. Leave out beta0."
        )
    out = out.absolute()
    claim(out, settings)
    return _Run(out, settings, device.value, console or Console()).result()


class _Run:
    """One run of the demo: its files and its steps."""

    def __init__(self, out: Path, settings: Settings, device: str, console: Console) -> None:
        self.out, self.settings, self.device, self.console = out, settings, device, console
        self.dataset = out / "nnUNet_raw" / DATASET_NAME
        self.preprocessed = out / "nnUNet_preprocessed" / DATASET_NAME
        n_processes = str(min(os.cpu_count() or 1, 8))
        self.environment = {
            "nnUNet_raw": str(self.dataset.parent),
            "nnUNet_preprocessed": str(out / "nnUNet_preprocessed"),
            "nnUNet_results": str(out / "nnUNet_results"),
            "nnUNet_n_proc_DA": os.environ.get("nnUNet_n_proc_DA", n_processes),
            "nnUNet_def_n_proc": os.environ.get("nnUNet_def_n_proc", n_processes),
            # Compiling takes longer than these trainings.
            "nnUNet_compile": "false",
            "PYTHONUNBUFFERED": "1",
        }
        # On a CPU, a tiny network keeps one thread busy; several wait for each other, above all on
        # a busy machine. Workers compete with it for cores, and batches in their queue were drawn
        # by old losses.
        own = {"nnUNet_n_proc_DA": "0"} if device != "cuda" else {}
        own |= {"OMP_NUM_THREADS": "1"} if device == "cpu" else {}
        self.training_environment = {
            name: os.environ.get(name, value) for name, value in own.items()
        }
        # nnUNetv2_predict takes its number of processes for its number of threads.
        is_free = device == "cpu" and "nnUNet_def_n_proc" not in os.environ
        self.prediction_environment = {"nnUNet_def_n_proc": "1"} if is_free else {}
        self.n_trainings_at_once = 2 if device == "cpu" and cpu_count() > 1 else 1

    @cached_property
    def cases(self) -> dict[str, pd.DataFrame]:
        """The rows of the case table, by split."""
        return {
            str(split): rows
            for split, rows in read_cases(self.dataset / CASE_TABLE_FILE).groupby("split")
        }

    def result(self) -> pd.DataFrame:
        """Carry out the steps that are not complete, and show the table."""
        if not self.dataset.is_dir():
            with steps_progress(self.console, ["Build the dataset"]):
                build_dataset(self.dataset.parent, rng=np.random.default_rng(self.settings.seed))
        steps = self.steps()
        self._write_commands(steps)
        pending = []
        for number, step in enumerate(steps, start=1):
            title = f"{number}/{len(steps)} {step.title}"
            if step.done.exists():
                self.console.print(f"{title}: was done before", highlight=False)
            else:
                pending.append(replace(step, title=title))
        for group in together(pending, at_most=self.n_trainings_at_once):
            carry_out(group, environment=self.environment, console=self.console)
        return self._evaluate()

    def steps(self) -> list[Step]:
        """The steps in their order."""
        number = DATASET_NAME.removeprefix("Dataset")[:3]
        plan: tuple[str, ...] = (
            "nnUNetv2_plan_and_preprocess",
            "-d",
            number,
            "-c",
            "2d",
            "--no_pbar",
        )
        plan += (
            "-npfp",
            self.environment["nnUNet_def_n_proc"],
            "-np",
            self.environment["nnUNet_def_n_proc"],
        )
        return [
            Step(
                "Plan and preprocess",
                self.preprocessed / f"{PLANS_NAME}.json",
                command=plan,
                log=self._log("plan_and_preprocess"),
                end=self._shrink_plans,
            ),
            *(
                self._training(method, trainer)
                for method, trainer in self.settings.trainers.items()
            ),
            *(
                self._prediction(method, trainer)
                for method, trainer in self.settings.trainers.items()
            ),
        ]

    def _training(self, method: str, trainer: str) -> Step:
        results = self.out / "nnUNet_results" / DATASET_NAME
        fold = fold_folder(results, trainer, PLANS_NAME, "2d_small", 0)
        train = ("nnUNetv2_train", DATASET_NAME, "2d_small", "0", *self._model(trainer))
        n_epochs = self.settings.epochs
        return Step(
            f"Train {method} ({trainer})",
            # nnU-Net writes the final checkpoint before its own validation, which comes last.
            fold / "validation" / "summary.json",
            command=train,
            log=self._log(f"train_{trainer}"),
            environment=self.training_environment,
            is_training=True,
            command_now=lambda: (*train, "--c") if any(fold.glob("checkpoint_*.pth")) else train,
            # Epochs count from 0.
            show=lambda progress: progress.update(read_epochs(fold).current or 0, n_epochs),
        )

    def _prediction(self, method: str, trainer: str) -> Step:
        folder = self.out / "predictions" / method
        unfinished = folder.with_name(f"{folder.name}.partial")
        predict: tuple[str, ...] = ("nnUNetv2_predict", "-d", DATASET_NAME, "-c", "2d_small")
        predict += (
            "-f",
            "0",
            *self._model(trainer),
            "-i",
            str(self.dataset / "imagesTs"),
            "-o",
            str(folder),
        )
        predict += ("--disable_tta", "-npp", "1", "-nps", "1", "--disable_progress_bar")
        return Step(
            f"Predict with {method}",
            folder,
            command=predict,
            log=self._log(f"predict_{method}"),
            environment=self.prediction_environment,
            begin=lambda: shutil.rmtree(unfinished, ignore_errors=True),
            command_now=lambda: tuple(
                str(unfinished) if word == str(folder) else word for word in predict
            ),
            show=lambda progress: progress.update(
                len(list(unfinished.glob("*.png"))), len(self.cases["test"])
            ),
            end=partial(unfinished.rename, folder),
        )

    def _model(self, trainer: str) -> tuple[str, ...]:
        return ("-tr", trainer, "-p", PLANS_NAME, "-device", self.device)

    def _log(self, name: str) -> Path:
        return self.out / "logs" / f"{name}.txt"

    def _write_commands(self, steps: list[Step]) -> None:
        """Write the commands of the run, for a shell to repeat."""
        lines = ["#!/bin/sh", "# The steps of this demo on the dataset that it has made."]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in self.environment.items()]
        for step in steps:
            variables = "".join(
                f"{name}={shlex.quote(value)} " for name, value in step.environment.items()
            )
            lines += ["", f"# {step.title}", variables + shlex.join(step.command)]
        results = commands(self.out, self.dataset, self.settings.trainers)
        lines += ["", "# Evaluate and compare", *map(shlex.join, results)]
        with replacing(self.out / "commands.sh") as new:
            new.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _shrink_plans(self) -> None:
        train, validation = (
            self.cases[split]["case"].tolist() for split in ("train", "validation")
        )
        plans = json.loads((self.preprocessed / "nnUNetPlans.json").read_text(encoding="utf-8"))
        small = small_plans(plans, parent="2d")
        # The plans are written last, because they mark the step as complete.
        splits = [{"train": train, "val": validation}]
        for name, content in ((SPLITS_FILE, splits), (f"{PLANS_NAME}.json", small)):
            with replacing(self.preprocessed / name) as new:
                new.write_text(json.dumps(content, indent=2), encoding="utf-8")

    def _evaluate(self) -> pd.DataFrame:
        with steps_progress(self.console, ["Evaluate and compare"]) as (progress,):
            methods = self.settings.trainers
            jobs = int(self.environment["nnUNet_def_n_proc"])
            comparison = compare_methods(
                self.out, self.dataset, methods, jobs=jobs, progress=progress
            )
        shown = (comparison.strata["metric"] == METRIC) & (comparison.strata["attribute"] == BY)
        table = comparison.strata[shown].reset_index(drop=True)
        self.console.print(results_table(table, Counter(self.cases["train"][BY])))
        self.console.print(_ABOUT_THE_DATA, highlight=False)
        for name, folder in (
            ("Comparison", "comparison"),
            *((m, f"evaluation/{m}") for m in self.settings.trainers),
        ):
            self.console.print(
                f"{name}: {self.out / folder / 'report.html'}", highlight=False, soft_wrap=True
            )
        self.console.print(f"Commands and logs: {self.out}", highlight=False)
        return table
