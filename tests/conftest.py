import gc
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

from tests.nnunet_project import Project, environment, make_project, popen_forked
from tests.pages.browser import driver, gl_driver, open_page

__all__ = ["driver", "gl_driver", "open_page"]

_ROOT = Path(tempfile.mkdtemp(prefix="nnunet-dro-tests-"))
# Before nnunetv2 is imported anywhere: its older versions read these once.
os.environ.update(environment(_ROOT))
os.environ["nnUNet_n_proc_DA"] = "0"
for name in ("raw", "preprocessed", "results"):
    (_ROOT / name).mkdir()

# Neither a busy machine nor other examples than those of yesterday must fail a test of numbers.
# With --hypothesis-profile=default, the examples are others each time.
settings.register_profile(
    "busy", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy")

#: Files below this folder that take seconds, also without their slow tests. What holds the form of
#: code and pages is not among them.
LONG_FILES = [
    "demo/test_run.py",
    "evaluation/comparing/test_trainings.py",
    "evaluation/evaluating/test_result_files.py",
    "evaluation/judging/test_planning.py",
    "evaluation/report/test_browser.py",
    "evaluation/report/test_html.py",
    "evaluation/scoring/test_dicom.py",
    "evaluation/scoring/test_nnunet_readers.py",
    "evaluation/scoring/test_surfaces.py",
    "evaluation/statistics/test_equity.py",
    "evaluation/test_commands.py",
    "evaluation/test_comparison_requirements.py",
    "evaluation/test_inputs.py",
    "evaluation/test_lesion_commands.py",
    "evaluation/test_workers.py",
    "evidence/test_quality_page.py",
    "evidence/test_verify.py",
    "experiments/convergence/test_convergence.py",
    "experiments/convergence/test_spoilt_nuclei.py",
    "experiments/datasets/test_nuclei.py",
    "experiments/digits/test_training.py",
    "experiments/imbalanced_pair/test_imbalanced_pair.py",
    "experiments/nuclei/test_unseen.py",
    "experiments/record/test_runs.py",
    "experiments/reweighting_limits/test_descent.py",
    "experiments/reweighting_limits/test_networks.py",
    "experiments/reweighting_limits/test_reweighting_limits.py",
    "experiments/test_added_seeds.py",
    "experiments/test_experiments.py",
    "experiments/test_gpu.py",
    "exploration/test_command.py",
    "exploration/test_exploration.py",
    "fuzzing/test_commands.py",
    "inspection/doctor/test_rare_images.py",
    "inspection/suspects/test_command.py",
    "inspection/suspects/test_page.py",
    "inspection/suspects/test_pictures.py",
    "losses/test_voxel_loss.py",
    "losses/test_weighted_batch_dice.py",
    "model_folders/test_finetune.py",
    "nnunet/test_command.py",
    "ranking/test_command.py",
    "ranking/test_page.py",
    "sampling/test_group_rules.py",
    "sampling/test_hardness.py",
    "sampling/test_probabilities.py",
    "sampling/test_systematic.py",
    "sampling/test_workers.py",
    "test_site.py",
    "test_walkthroughs.py",
    "trainers/data/test_case_groups.py",
    "trainers/data/test_dataloading.py",
    "trainers/data/test_image_rarity.py",
    "trainers/data/test_subvolumes.py",
    "trainers/data/test_voxel_shares.py",
    "trainers/gils/test_gils.py",
    "trainers/gils/test_perturbation.py",
    "trainers/gils/test_perturbation_memory.py",
    "trainers/l2rw/test_l2rw.py",
    "trainers/log/test_epoch_log.py",
    "trainers/log/test_hardness_log.py",
    "trainers/test_beta_zero.py",
    "trainers/test_checkpoint.py",
    "trainers/test_ddp.py",
    "trainers/test_discovery.py",
    "trainers/test_every_trainer.py",
    "trainers/test_group_dro.py",
    "trainers/test_hardness_weighted.py",
    "trainers/test_kept_trainings.py",
    "trainers/test_on_a_gpu.py",
    "trainers/test_other_networks.py",
    "trainers/test_recompilation.py",
    "tuning/test_command.py",
    "tuning/test_repeats.py",
    "tuning/test_report.py",
    "tuning/test_search.py",
    "tuning/test_study.py",
    "viewer/test_browser.py",
    "viewer/test_page.py",
]


def pytest_unconfigure() -> None:
    shutil.rmtree(_ROOT, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported stays to the end: no garbage is looked for among it, neither now nor
    later."""
    gc.disable()
    result = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first, and then those that take seconds: at the end of a run in
    two processes, none waits for long for the other."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    long = {Path(__file__).parent / name for name in LONG_FILES}
    items.sort(key=lambda item: (item.path not in slow, item.path not in long))
    for item in items:
        if item.path in long:
            item.add_marker("long")


@pytest.fixture(scope="session")
def project(tmp_path_factory) -> Callable[[str], Project]:
    """Projects by kind (see `LABELS`), each planned and preprocessed once."""
    made: dict[str, Project] = {}
    is_alone = "PYTEST_XDIST_WORKER" not in os.environ

    def get(kind: str) -> Project:
        if kind not in made:
            shared = tmp_path_factory.getbasetemp().parent / "projects"
            made[kind] = make_project(_ROOT, kind) if is_alone else _copy_of_shared(shared, kind)
        return made[kind]

    return get


def _copy_of_shared(shared: Path, kind: str) -> Project:
    """A project that the first worker to need it makes; each works in a copy, for some tests change
    the plans."""
    shared.mkdir(exist_ok=True)
    ready = shared / kind
    mine = Project(_ROOT, kind)
    with FileLock(shared / f"{kind}.lock"):
        if not ready.exists():
            # In this worker's folders, whose commands are forked from one process for all kinds.
            make_project(_ROOT, kind)
            unfinished = shared / f"{kind}.unfinished"
            shutil.copytree(mine.raw, unfinished / "raw")
            shutil.copytree(mine.preprocessed, unfinished / "preprocessed")
            unfinished.rename(ready)
            return mine
    shutil.copytree(ready / "raw", mine.raw)
    shutil.copytree(ready / "preprocessed", mine.preprocessed)
    return mine


@pytest.fixture
def forked(monkeypatch) -> None:
    """The commands of nnU-Net that this package starts are forked from a process that has imported
    nnU-Net already."""
    if hasattr(os, "fork"):
        monkeypatch.setattr(
            "nnunet_dro.nnunet.command.subprocess",
            SimpleNamespace(**{**vars(subprocess), "Popen": popen_forked}),
        )


@pytest.fixture
def make_trainer(project, request) -> Callable:
    """Make a trainer of this package, by its name, or any other as nnUNetv2_train does; its results
    are removed."""
    from batchgenerators.utilities.file_and_folder_operations import load_json

    from nnunet_dro.trainers.registry import trainer_class

    folders = []

    def make(
        cls, configuration="3d_small", kind="labels", fold=0, device="cpu", plans_name="nnUNetPlans"
    ):
        import torch

        here = project(kind)
        plans = load_json(str(here.preprocessed / f"{plans_name}.json"))
        plans["continue_training"] = False
        trainer = (trainer_class(cls) if isinstance(cls, str) else cls)(
            plans=plans,
            configuration=configuration,
            fold=fold,
            dataset_json=load_json(str(here.preprocessed / "dataset.json")),
            device=torch.device(device),
        )
        folders.append(trainer.output_folder_base)
        return trainer

    yield make
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
