"""Small nnU-Net projects for the tests: raw data written here, planned and preprocessed by
nnU-Net's own commands."""

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813

from tests.command_server import CommandServer, ForkedCommand

#: Labels as dataset.json has them, by kind of project.
LABELS = {
    "labels": {"background": 0, "shell": 1, "core": 2},
    "regions": {"background": 0, "whole": [1, 2], "core": [2]},
    "ignore": {"background": 0, "shell": 1, "core": 2, "ignore": 3},
    "regions_ignore": {"background": 0, "whole": [1, 2], "core": [2], "ignore": 3},
}
DATASET_IDS = {kind: 901 + i for i, kind in enumerate(LABELS)}


@dataclass(frozen=True)
class Project:
    """A dataset that is ready for training."""

    root: Path
    kind: str

    @property
    def dataset_id(self) -> int:
        return DATASET_IDS[self.kind]

    @property
    def dataset(self) -> str:
        return f"Dataset{self.dataset_id}_{self.kind}"

    @property
    def raw(self) -> Path:
        return self.root / "raw" / self.dataset

    @property
    def preprocessed(self) -> Path:
        return self.root / "preprocessed" / self.dataset

    def fold_folder(self, trainer: str, configuration: str, fold: int = 0) -> Path:
        return (
            self.root
            / "results"
            / self.dataset
            / f"{trainer}__nnUNetPlans__{configuration}"
            / f"fold_{fold}"
        )

    def run(
        self, command: str, *arguments: object, check: bool = True, anew: bool = False
    ) -> subprocess.CompletedProcess:
        """Run one of nnU-Net's commands as its user would, or ``anew`` in a process that imports
        everything itself."""
        words = [command, *map(str, arguments)]
        root = self.root
        if anew or not hasattr(os, "fork"):
            words[0] = str(Path(sys.executable).parent / command)
            result = subprocess.run(
                words, env=environment(root), capture_output=True, text=True, cwd=root
            )
        else:
            result = server(root).run(*words, environment=environment(root), folder=root)
        if check and result.returncode != 0:
            raise AssertionError(
                f"{command} {arguments} failed:\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
            )
        return result

    def start(self, command: str, *arguments: object, log: Path) -> ForkedCommand:
        """Start one of nnU-Net's commands in a session of its own, with a file for everything that
        it prints."""
        folders = {"environment": environment(self.root), "folder": self.root}
        return server(self.root).start(command, *map(str, arguments), **folders, files=(log, log))


def environment(root: Path) -> dict[str, str]:
    return {
        **os.environ,
        "nnUNet_raw": str(root / "raw"),
        "nnUNet_preprocessed": str(root / "preprocessed"),
        "nnUNet_results": str(root / "results"),
        "nnUNet_n_proc_DA": "2",
        "nnUNet_def_n_proc": "1",
        "PYTHONUNBUFFERED": "1",
    }


def server(root: Path) -> CommandServer:
    """The process that forks nnU-Net's commands, one for all projects.

    Versions of nnU-Net that read their folders when they are imported need one for each.
    """
    from nnunetv2.paths import nnUNet_results

    return _server(None if hasattr(nnUNet_results, "require") else root)


def run_module(module: str, *words: object) -> None:
    """Do what ``python -m module ...`` does, in a process that has imported nnU-Net already."""
    root = Path(os.environ["nnUNet_results"]).parent
    result = server(root).run(
        *("python", "-m", module, *map(str, words)),
        environment=os.environ,
        folder=Path(__file__).parents[1],
    )
    assert result.returncode == 0, result.stderr[-3000:]


def popen_forked(words, *, stdout, env, **_) -> ForkedCommand:
    """What `subprocess.Popen` does for `nnunet_dro.nnunet.command`, in a forked process."""
    return server(Path(env["nnUNet_results"]).parent).start(
        Path(words[0]).name,
        *words[1:],
        environment=env,
        folder=Path.cwd(),
        files=[Path(stdout.name)] * 2,
    )


def with_forked_commands(make: Callable, *arguments: object) -> object:
    """Call a function, here or in a process of joblib; the commands of nnU-Net that it starts are
    forked."""
    forking = SimpleNamespace(**{**vars(subprocess), "Popen": popen_forked})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nnunet_dro.nnunet.command.subprocess", forking)
        return make(*arguments)


@cache
def _server(root: Path | None) -> CommandServer:
    started = CommandServer(os.environ if root is None else environment(root))
    atexit.register(started.close)
    return started


def write_case(
    raw: Path, name: str, rng: np.random.Generator, *, kind: str, split: str = "Tr"
) -> None:
    """An ellipsoid with a core, in noise."""
    shape = (26, 30, 28)
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, n) for n in shape], indexing="ij"))
    centre = rng.uniform(-0.25, 0.25, size=3)[:, None, None, None]
    radius = np.sqrt(
        ((grid - centre) ** 2 / rng.uniform(0.5, 1.0, size=3)[:, None, None, None]).sum(0)
    )
    label = np.zeros(shape, dtype=np.uint8)
    label[radius < 0.7] = 1
    label[radius < 0.4] = 2
    image = np.array([0.0, 1.0, 2.0])[label] + rng.normal(0, 0.3, size=shape)
    if "ignore" in kind:
        label[:8] = 3
    for array, folder, suffix in (
        (image.astype(np.float32), "images", "_0000"),
        (label, "labels", ""),
    ):
        (raw / f"{folder}{split}").mkdir(parents=True, exist_ok=True)
        sitk.WriteImage(
            sitk.GetImageFromArray(array), str(raw / f"{folder}{split}" / f"{name}{suffix}.nii.gz")
        )


def make_project(root: Path, kind: str, *, n_cases: int = 10) -> Project:
    """Write, plan and preprocess a project with the small configurations 2d_small and 3d_small."""
    project = Project(root, kind)
    rng = np.random.default_rng(0)
    for i in range(n_cases):
        write_case(project.raw, f"case_{i:02d}", rng, kind=kind)
    for i in range(2):
        write_case(project.raw, f"test_{i:02d}", rng, kind=kind, split="Ts")
    description = {
        "channel_names": {"0": "MRI"},
        "labels": LABELS[kind],
        "file_ending": ".nii.gz",
        "numTraining": n_cases,
    }
    if "regions" in kind:
        description["regions_class_order"] = [1, 2]
    (project.raw / "dataset.json").write_text(json.dumps(description))
    sites = "".join(
        f"case_{i:02d},{'abb'[i % 3]},{i},{'yes' if i in (1, 4) else 'no'}\n"
        for i in range(n_cases)
    )
    (project.raw / "cases.csv").write_text("case,site,number,trusted\n" + sites)
    project.run(
        *("nnUNetv2_plan_and_preprocess", "-d", project.dataset_id, "-c", "2d", "3d_fullres"),
        *("-np", 2, "-npfp", 1),
    )
    add_small_configurations(project.preprocessed / "nnUNetPlans.json")
    return project


def add_small_configurations(plans_file: Path) -> None:
    plans = json.loads(plans_file.read_text())
    configurations = plans["configurations"]
    for name, base, batch_size in (("2d_small", "2d", 6), ("3d_small", "3d_fullres", 2)):
        architecture = deepcopy(configurations[base]["architecture"])
        arguments = architecture["arch_kwargs"]
        dimensions = len(configurations[base]["patch_size"])
        arguments.update(
            n_stages=3,
            features_per_stage=[4, 8, 16],
            kernel_sizes=[[3] * dimensions] * 3,
            strides=[[1] * dimensions, [2] * dimensions, [2] * dimensions],
            n_conv_per_stage=[1, 1, 1],
            n_conv_per_stage_decoder=[1, 1],
        )
        configurations[name] = {
            "inherits_from": base,
            "patch_size": [32] * dimensions,
            "batch_size": batch_size,
            "architecture": architecture,
        }
    plans_file.write_text(json.dumps(plans, indent=1))
