"""The steps of the demo, from raw images to a table.

A second run continues where the first one stopped.
"""

import json
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import cpu_count
from rich.console import Console

from nnunet_dro.demo.dataset import DATASET_NAME, build_dataset
from nnunet_dro.demo.preparation import PLANS_NAME, DemoSettings, claim, small_plans
from nnunet_dro.demo.results import BY, METRIC, commands, compare_methods, results_table
from nnunet_dro.demo.steps import Step, StepProgress, carry_out, steps_progress, together
from nnunet_dro.files.case_table import CASE_TABLE_FILE, read_cases
from nnunet_dro.files.output_folder import write_files
from nnunet_dro.nnunet.command import Device
from nnunet_dro.nnunet.folders import SPLITS_FILE, fold_folder
from nnunet_dro.nnunet.training import read_epochs

_ABOUT_THE_DATA = (
    "The images show one real anatomy (ICBM 2009a MRI template); the deformations and the "
    "protocols A, B and C, which are equally frequent in the test, are simulated. This "
    "demonstrates the method on small networks and is no clinical evidence."
)


def run_demo(
    out: Path,
    settings: DemoSettings,
    *,
    device: Device = Device.CPU,
    console: Console | None = None,
) -> pd.DataFrame:
    """Train plain nnU-Net and the robust trainer for the same time, and compare them.

    Returns:
        The Dice of both on held-out cases, with a row per method, label and centre.
    """
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
    run = _Run(out, settings, device.value, console or Console())
    run.check_trained()
    return run.result()


class _Run:
    """One run of the demo: its files and its steps."""

    def __init__(self, out: Path, settings: DemoSettings, device: str, console: Console) -> None:
        self.out = out
        self.settings = settings
        self.device = device
        self.console = console
        self.dataset = out / "nnUNet_raw" / DATASET_NAME
        self.preprocessed = out / "nnUNet_preprocessed" / DATASET_NAME

        n_processes = str(min(os.cpu_count() or 1, 8))
        n_workers = os.environ.get("nnUNet_n_proc_DA", n_processes)
        if n_workers.strip() == "0":
            n_workers = "1"  # nnU-Net trains without workers, but cannot plan without one
        self.environment = {
            "nnUNet_raw": str(self.dataset.parent),
            "nnUNet_preprocessed": str(out / "nnUNet_preprocessed"),
            "nnUNet_results": str(out / "nnUNet_results"),
            "nnUNet_n_proc_DA": n_workers,
            "nnUNet_def_n_proc": os.environ.get("nnUNet_def_n_proc", n_processes),
            # Compiling takes longer than these trainings.
            "nnUNet_compile": "false",
            "PYTHONUNBUFFERED": "1",
        }
        self.training_environment = _training_environment(device)
        # nnUNetv2_predict takes its number of processes for its number of threads.
        self.prediction_environment = {}
        if device == "cpu" and "nnUNet_def_n_proc" not in os.environ:
            self.prediction_environment["nnUNet_def_n_proc"] = "1"
        self.n_trainings_at_once = 2 if device == "cpu" and cpu_count() > 1 else 1

    @cached_property
    def cases(self) -> dict[str, pd.DataFrame]:
        """The rows of the case table, by split."""
        cases = read_cases(self.dataset / CASE_TABLE_FILE)
        return {str(split): rows for split, rows in cases.groupby("split")}

    def check_trained(self) -> None:
        """Refuse trainings whose trainer stood for something else when they were begun."""
        from nnunet_dro.trainers.registry import check_trained  # imports nnU-Net

        for trainer in self.settings.trainers.values():
            try:
                check_trained(self._fold(trainer), trainer)
            except ValueError as error:
                raise ValueError(
                    f"`out` must hold trainings of this version, got {str(self.out)!r}, where "
                    f"another version trained {trainer}, which drew otherwise. Choose another "
                    "with --out."
                ) from error

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
        trainers = self.settings.trainers
        return [
            self._planning(),
            *(self._training(method, trainer) for method, trainer in trainers.items()),
            *(self._prediction(method, trainer) for method, trainer in trainers.items()),
        ]

    def _planning(self) -> Step:
        number = DATASET_NAME.removeprefix("Dataset")[:3]
        n_processes = self.environment["nnUNet_def_n_proc"]
        plan = ("nnUNetv2_plan_and_preprocess", "-d", number, "-c", "2d", "--no_pbar")
        return Step(
            "Plan and preprocess",
            self.preprocessed / f"{PLANS_NAME}.json",
            command=(*plan, "-npfp", n_processes, "-np", n_processes),
            log=self._log("plan_and_preprocess"),
            end=self._shrink_plans,
        )

    def _training(self, method: str, trainer: str) -> Step:
        fold = self._fold(trainer)
        train = ("nnUNetv2_train", DATASET_NAME, "2d_small", "0", *self._model(trainer))
        n_epochs = self.settings.epochs

        def train_now() -> tuple[str, ...]:
            has_started = any(fold.glob("checkpoint_*.pth"))
            return (*train, "--c") if has_started else train

        def show(progress: StepProgress) -> None:
            n_done = read_epochs(fold).current or 0  # epochs count from 0
            progress.update(n_done, n_epochs)

        return Step(
            f"Train {method} ({trainer})",
            # nnU-Net writes the final checkpoint before its own validation, which comes last.
            fold / "validation" / "summary.json",
            command=train,
            log=self._log(f"train_{trainer}"),
            environment=self.training_environment,
            is_training=True,
            command_now=train_now,
            show=show,
        )

    def _prediction(self, method: str, trainer: str) -> Step:
        folder = self.out / "predictions" / method
        unfinished = folder.with_name(f"{folder.name}.partial")

        def predict(to: Path) -> tuple[str, ...]:
            model = ("-d", DATASET_NAME, "-c", "2d_small", "-f", "0", *self._model(trainer))
            folders = ("-i", str(self.dataset / "imagesTs"), "-o", str(to))
            options = ("--disable_tta", "-npp", "1", "-nps", "1", "--disable_progress_bar")
            return ("nnUNetv2_predict", *model, *folders, *options)

        def show(progress: StepProgress) -> None:
            n_predicted = len(list(unfinished.glob("*.png")))
            progress.update(n_predicted, len(self.cases["test"]))

        return Step(
            f"Predict with {method}",
            folder,
            command=predict(folder),
            log=self._log(f"predict_{method}"),
            environment=self.prediction_environment,
            begin=partial(shutil.rmtree, unfinished, ignore_errors=True),
            command_now=partial(predict, unfinished),
            show=show,
            end=partial(unfinished.rename, folder),
        )

    def _fold(self, trainer: str) -> Path:
        results = self.out / "nnUNet_results" / DATASET_NAME
        return fold_folder(results, trainer, PLANS_NAME, "2d_small", 0)

    def _model(self, trainer: str) -> tuple[str, ...]:
        return ("-tr", trainer, "-p", PLANS_NAME, "-device", self.device)

    def _log(self, name: str) -> Path:
        return self.out / "logs" / f"{name}.txt"

    def _write_commands(self, steps: list[Step]) -> None:
        """Write the commands of the run, for a shell to repeat."""
        lines = ["#!/bin/sh", "# The steps of this demo on the dataset that it has made."]
        lines += [f"export {setting}" for setting in _settings(self.environment)]
        for step in steps:
            words = [*_settings(step.environment), shlex.join(step.command)]
            lines += ["", f"# {step.title}", " ".join(words)]

        lines += ["", "# Evaluate and compare"]
        lines += map(shlex.join, commands(self.out, self.dataset, self.settings.trainers))
        write_files(self.out, {"commands.sh": "\n".join(lines) + "\n"})

    def _shrink_plans(self) -> None:
        """Write our own split and the small configuration of the plans that nnU-Net has made."""
        splits = [
            {
                "train": self.cases["train"]["case"].tolist(),
                "val": self.cases["validation"]["case"].tolist(),
            }
        ]
        plans = json.loads((self.preprocessed / "nnUNetPlans.json").read_text(encoding="utf-8"))
        small = small_plans(plans, parent="2d")

        # The first one is written last: the plans mark the step as complete.
        contents = {f"{PLANS_NAME}.json": small, SPLITS_FILE: splits}
        files = {name: json.dumps(content, indent=2) for name, content in contents.items()}
        write_files(self.preprocessed, files)

    def _evaluate(self) -> pd.DataFrame:
        with steps_progress(self.console, ["Evaluate and compare"]) as (progress,):
            comparison = compare_methods(
                self.out,
                self.dataset,
                self.settings.trainers,
                jobs=int(self.environment["nnUNet_def_n_proc"]),
                progress=progress,
            )
        strata = comparison.strata
        is_shown = (strata["metric"] == METRIC) & (strata["attribute"] == BY)
        table = strata[is_shown].reset_index(drop=True)

        self.console.print(results_table(table, Counter(self.cases["train"][BY])))
        self.console.print(_ABOUT_THE_DATA, highlight=False)

        self._print_report("Comparison", "comparison")
        for method in self.settings.trainers:
            self._print_report(method, f"evaluation/{method}")
        self.console.print(f"Commands and logs: {self.out}", highlight=False)
        return table

    def _print_report(self, name: str, folder: str) -> None:
        path = self.out / folder / "report.html"
        self.console.print(f"{name}: {path}", highlight=False, soft_wrap=True)


def _settings(environment: Mapping[str, str]) -> list[str]:
    """Variables of the environment as a shell sets them."""
    return [f"{name}={shlex.quote(value)}" for name, value in environment.items()]


def _training_environment(device: str) -> dict[str, str]:
    """Environment variables of the trainings, where the user has not set them.

    On a CPU, a tiny network keeps one thread busy; several wait for each other, above all on a busy
    machine. Workers compete with it for cores, and batches in their queue were drawn by old losses.
    """
    variables = {}
    if device != "cuda" or "nnUNet_n_proc_DA" in os.environ:
        variables["nnUNet_n_proc_DA"] = "0"
    if device == "cpu":
        variables["OMP_NUM_THREADS"] = "1"
    return {name: os.environ.get(name, value) for name, value in variables.items()}
