"""Sections of `gpu_check.py` about what a training step costs."""

import os
from typing import Any

import counted_memory
import numpy as np
import torch
import train_step
from gpu_check_steps import SMALL, steps_of
from random_trainers import (
    GPU_SETTINGS,
    Setting,
    count_synchronisations,
    dataset_json,
    forget_everything_compiled,
    make_batch,
    make_trainer,
    peak_memory,
)
from torch._dynamo.utils import counters

#: Bounds on the time of a step, with compilation, and on its peak memory, relative to
#: nnUNetTrainer's.
MOST_TIME = 1.01
MOST_TIME_L2RW = 2.3
MOST_MEMORY = 1.02
MOST_MEMORY_GILS = 1.2
#: GILS makes two of nnU-Net's steps per iteration.
STEPS_PER_ITERATION = {"nnUNetTrainerGILS_T2": 2}
TIMED = (
    "nnUNetTrainerDRO",
    "nnUNetTrainerL2RW",
    "nnUNetTrainerDRO_hardPresent",
    "nnUNetTrainerDRO_poly1",
    "nnUNetTrainerLS",
    "nnUNetTrainerGILS",
)


def sync(findings: Any) -> None:
    """A step waits for the GPU as often as nnU-Net's."""
    setting = SMALL["cuda"]["3d"]
    plain = 0
    for name in (
        "nnUNetTrainer",
        "nnUNetTrainerDRO",
        "nnUNetTrainerHWS_exactIS_normIS_hardPresent",
        "nnUNetTrainerLS",
        "nnUNetTrainerGILS_T2",
        "nnUNetTrainerL2RW",
    ):
        trainer = make_trainer(name, setting, findings.device, compiled=False)
        for i in range(6):
            trainer.train_step(make_batch(trainer, setting, seed=i))
        n = count_synchronisations(trainer, make_batch(trainer, setting, seed=9))
        plain = plain or n
        findings.check(
            f"sync {name}", n <= plain * STEPS_PER_ITERATION.get(name, 1), synchronisations=n
        )


def compile(findings: Any) -> None:
    """No graph is compiled after the first iterations, and the compiled loss is the eager one."""
    setting = SMALL["cuda"]["3d"]
    for name in (
        "nnUNetTrainer",
        "nnUNetTrainerDRO",
        "nnUNetTrainerHWS_normIS_hardPresent",
        "nnUNetTrainerGILS_T1",
        "nnUNetTrainerL2RW",
    ):
        if findings.is_late(f"compile {name}"):
            continue
        forget_everything_compiled()
        counters.clear()
        trainer: Any = make_trainer(name, setting, findings.device)
        steps = [] if name == "nnUNetTrainer" else steps_of(trainer)
        n_graphs = []
        for i in range(30):
            trainer.train_step(make_batch(trainer, setting, seed=i))
            n_graphs.append(counters["stats"]["unique_graphs"])
        findings.check(
            f"compile {name}",
            n_graphs[-1] == n_graphs[5] > 0,
            graphs=n_graphs[-1],
            after_one_iteration=n_graphs[0],
            breaks=sum(counters["graph_break"].values()),
        )
        if name == "nnUNetTrainerL2RW":
            learned = trainer._learned.learned
            findings.note(
                "compile, way of L2RW", at_once=learned.at_once, why_not=learned.not_at_once
            )
        if name == "nnUNetTrainerDRO":
            eager: Any = make_trainer(name, setting, findings.device, compiled=False)
            eager_steps = steps_of(eager)
            eager.train_step(make_batch(eager, setting, seed=0))
            error = np.abs(steps[0].losses / eager_steps[0].losses - 1).max()
            findings.check(
                "compile, hardness in the first step", error < 5e-3, relative_difference=error
            )


def memory(findings: Any) -> None:
    """The peak memory of a step, of each trainer alone.

    Without a GPU it is counted on tensors without data.
    """
    if not findings.is_gpu:
        peaks = {name: peak / 2**20 for name, peak in counted_memory.count().items()}
        _judge_memory(findings, "memory, counted, 3d", peaks)
        return
    full_3d = GPU_SETTINGS["3d, batch 2"]
    full_2d = GPU_SETTINGS["2d, batch 12"]
    names = ("DRO", "DRO_hardPresent", "DRO_poly1", "GILS_T2", "L2RW")
    for title, setting, n_classes in (
        ("3d", full_3d, 3),
        ("3d, 30 classes", full_3d, 30),
        ("2d", full_2d, 4),
    ):
        for compiled in (False, True):
            what = f"memory {title}{', compiled' if compiled else ''}"
            if findings.is_late(what):
                continue
            how = {"dataset": dataset_json(n_classes), "compiled": compiled}
            peaks = {"plain": _peak_mib("nnUNetTrainer", setting, findings.device, **how)}
            for name in names:
                peaks[name] = _peak_mib(f"nnUNetTrainer{name}", setting, findings.device, **how)
            _judge_memory(findings, what, peaks)


def _peak_mib(name: str, setting: Setting, device: torch.device, **how: Any) -> float:
    try:
        return peak_memory(name, setting, device, **how) / 2**20
    except torch.cuda.OutOfMemoryError:
        return float("inf")


def _judge_memory(findings: Any, what: str, peaks: dict[str, float]) -> None:
    plain = peaks.pop("plain")
    findings.note(f"{what}, nnUNetTrainer", mib=plain)
    for name, peak in peaks.items():
        bound = MOST_MEMORY_GILS if name.startswith("GILS") else MOST_MEMORY
        if name == "L2RW":
            findings.note(f"{what}, {name}", mib=peak, ratio=peak / plain)
        else:
            findings.check(f"{what}, {name}", peak <= bound * plain, mib=peak, ratio=peak / plain)


def speed(findings: Any) -> None:
    """The time of a compiled step relative to nnUNetTrainer's, in turns."""
    os.environ["nnUNet_compile"] = "t"
    for name in TIMED:
        for title, setting in GPU_SETTINGS.items():
            what = f"speed {title}, {name}"
            if findings.is_late(what):
                continue
            is_slow = name in ("nnUNetTrainerGILS", "nnUNetTrainerL2RW")
            row = train_step.measure(name, setting, findings.device, 15 if is_slow else 40)
            if name == "nnUNetTrainerGILS":
                findings.note(what, **row)
            else:
                bound = MOST_TIME_L2RW if name == "nnUNetTrainerL2RW" else MOST_TIME
                findings.check(what, row["time_ratio"] <= bound, **row)
