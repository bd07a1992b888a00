import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.nnunet_project import Project, environment, make_project

_ROOT = Path(tempfile.mkdtemp(prefix="nnunet-dro-tests-"))
# Before nnunetv2 is imported anywhere: its older versions read these once.
os.environ.update(environment(_ROOT))
os.environ["nnUNet_n_proc_DA"] = "0"
for name in ("raw", "preprocessed", "results"):
    (_ROOT / name).mkdir()


def pytest_unconfigure() -> None:
    shutil.rmtree(_ROOT, ignore_errors=True)


@pytest.fixture(scope="session")
def project() -> Callable[[str], Project]:
    """Projects by kind (see `LABELS`), each planned and preprocessed once."""
    made: dict[str, Project] = {}

    def get(kind: str) -> Project:
        if kind not in made:
            made[kind] = make_project(_ROOT, kind)
        return made[kind]

    return get


@pytest.fixture
def make_trainer(project, request) -> Callable:
    """Make a trainer as nnUNetv2_train does, in this process; its results are removed afterwards."""
    from batchgenerators.utilities.file_and_folder_operations import load_json

    folders = []

    def make(cls: type, configuration: str = "3d_small", kind: str = "labels", fold: int | str = 0):
        import torch

        here = project(kind)
        plans = load_json(str(here.preprocessed / "nnUNetPlans.json"))
        plans["continue_training"] = False
        trainer = cls(
            plans=plans,
            configuration=configuration,
            fold=fold,
            dataset_json=load_json(str(here.preprocessed / "dataset.json")),
            device=torch.device("cpu"),
        )
        folders.append(trainer.output_folder_base)
        return trainer

    yield make
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
