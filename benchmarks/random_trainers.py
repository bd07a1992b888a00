"""Trainers and batches for the benchmarks.

Networks of nnU-Net's on random images, without a dataset on disk.
"""

import contextlib
import gc
import io
import itertools
import json
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.backends import cudnn

_SCRATCH = tempfile.TemporaryDirectory()
for variable in ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results"):
    os.environ[variable] = _SCRATCH.name

from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer  # noqa: E402

from nnunet_dro.sampling import HardnessTable  # noqa: E402
from nnunet_dro.trainers.case_columns import ENTRY, CaseColumns  # noqa: E402
from nnunet_dro.trainers.hardness_weighted import HardnessWeighted  # noqa: E402
from nnunet_dro.trainers.l2rw.nnUNetTrainerL2RW import nnUNetTrainerL2RW, trusted_batch_size  # noqa: E402
from nnunet_dro.trainers.l2rw.weights_log import WeightsLog  # noqa: E402
from nnunet_dro.trainers.log.hardness_log import HardnessLog  # noqa: E402
from nnunet_dro.trainers.registry import trainer_class  # noqa: E402

Batch = dict[str, Any]

#: Number of training cases that batches are drawn from.
N_CASES = 200


class Setting(NamedTuple):
    """A network and its batches."""

    patch_size: tuple[int, ...]
    batch_size: int
    features: tuple[int, ...]
    batch_dice: bool


GPU_SETTINGS = {
    "2d, batch 12": Setting((512, 512), 12, (32, 64, 128, 256, 512, 512, 512), True),
    "2d, batch 49": Setting((192, 160), 49, (32, 64, 128, 256, 512, 512), True),
    "3d, batch 2": Setting((128, 128, 128), 2, (32, 64, 128, 256, 320, 320), False),
}
# Three stages: with two, nnU-Net's deep supervision has one output, and divides its weight of 0 by
# 0.
QUICK_SETTINGS = {"2d, batch 4": Setting((32, 32), 4, (4, 8, 8), True)}


def dataset_json(
    n_classes: int = 3, *, regions: bool = False, ignore: bool = False
) -> dict[str, Any]:
    """A description of a dataset with one channel; ``n_classes`` counts the background."""
    labels: dict[str, Any] = {"background": 0}
    for i in range(1, n_classes):
        labels[f"class {i}"] = list(range(i, n_classes)) if regions else i
    if ignore:
        labels["ignore"] = n_classes
    order = {"regions_class_order": list(range(1, n_classes))} if regions else {}
    return {"channel_names": {"0": "MRI"}, "labels": labels, "file_ending": ".nii.gz", **order}


def plans_for(
    patch_size: tuple[int, ...], batch_size: int, features: tuple[int, ...], batch_dice: bool
) -> dict[str, Any]:
    """nnU-Net's plans with one configuration, "benchmark"."""
    dimensions = len(patch_size)
    n_stages = len(features)
    strides = [[1] * dimensions] + [[2] * dimensions] * (n_stages - 1)
    configuration = {
        "data_identifier": "random",
        "preprocessor_name": "DefaultPreprocessor",
        "batch_size": batch_size,
        "patch_size": list(patch_size),
        "spacing": [1.0] * dimensions,
        "normalization_schemes": ["ZScoreNormalization"],
        "use_mask_for_norm": [False],
        "batch_dice": batch_dice,
        "architecture": {
            "network_class_name": "dynamic_network_architectures.architectures.unet.PlainConvUNet",
            "arch_kwargs": {
                "n_stages": n_stages,
                "features_per_stage": list(features),
                "conv_op": f"torch.nn.modules.conv.Conv{dimensions}d",
                "kernel_sizes": [[3] * dimensions] * n_stages,
                "strides": strides,
                "n_conv_per_stage": [2] * n_stages,
                "n_conv_per_stage_decoder": [2] * (n_stages - 1),
                "conv_bias": True,
                "norm_op": f"torch.nn.modules.instancenorm.InstanceNorm{dimensions}d",
                "norm_op_kwargs": {"eps": 1e-05, "affine": True},
                "dropout_op": None,
                "dropout_op_kwargs": None,
                "nonlin": "torch.nn.LeakyReLU",
                "nonlin_kwargs": {"inplace": True},
            },
            "_kw_requires_import": ["conv_op", "norm_op", "dropout_op", "nonlin"],
        },
    }
    return {
        "dataset_name": "Dataset001_Random",
        "plans_name": "nnUNetPlans",
        "label_manager": "LabelManager",
        "image_reader_writer": "SimpleITKIO",
        "transpose_forward": list(range(dimensions)),
        "transpose_backward": list(range(dimensions)),
        "configurations": {"benchmark": configuration},
    }


def make_trainer(
    name: str,
    setting: Setting,
    device: torch.device,
    *,
    dataset: dict[str, Any] | None = None,
    compiled: bool = True,
) -> nnUNetTrainer:
    """A trainer that is ready for its first step, with the same weights each time.

    The dataset has three classes if none is described; nnU-Net compiles network and loss on CUDA
    only.
    """
    # `initialize` only reads the file ending of the preprocessed dataset.
    folder = Path(_SCRATCH.name) / "Dataset001_Random" / "random"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "case_0.b2nd").touch()
    cls = nnUNetTrainer if name == "nnUNetTrainer" else trainer_class(name)
    plans = json.loads(json.dumps({**plans_for(*setting), "continue_training": False}))
    torch.manual_seed(0)
    with (
        contextlib.redirect_stdout(io.StringIO()),
        _environment(nnUNet_compile="t" if compiled else "f"),
    ):
        trainer = cls(plans, "benchmark", 0, dataset or dataset_json(), device)
        trainer.initialize()
    trainer.network.train()
    if isinstance(trainer, HardnessWeighted):
        _begin(trainer, setting)
    return trainer


def _begin(trainer: HardnessWeighted, setting: Setting) -> None:
    """What a trainer of ours gets with its data loaders."""
    cases = [f"case_{i}" for i in range(N_CASES)]
    trainer._draws_of_images = None  # there are no images to look at
    table = HardnessTable(cases, rule=trainer._make_rule(cases))
    trainer.hardness_log = HardnessLog(table, trainer.options.importance)
    if isinstance(trainer, nnUNetTrainerL2RW):
        n_trusted = trusted_batch_size(setting.batch_size)
        trainer.weights_log = WeightsLog(cases, cases[:5])
        batches = [make_batch(trainer, setting, seed, n_cases=n_trusted) for seed in range(90, 93)]
        trainer.dataloader_trusted = itertools.cycle(batches)


def make_batch(
    trainer: nnUNetTrainer,
    setting: Setting,
    seed: int,
    *,
    n_cases: int | None = None,
    beta: float = 100.0,
) -> Batch:
    """A random batch as nnU-Net's workers send it, in pinned memory if the trainer is on a GPU.

    It has as many cases as the setting says if ``n_cases`` is not given.
    """
    generator = torch.Generator().manual_seed(seed)
    batch_size = n_cases or setting.batch_size
    targets = []
    for scale in trainer._get_deep_supervision_scales():
        shape = [
            round(size * factor) for size, factor in zip(setting.patch_size, scale, strict=True)
        ]
        targets.append(
            torch.randint(0, 3, (batch_size, 1, *shape), generator=generator).to(torch.int16)
        )
    ones = torch.ones(batch_size)
    draws = CaseColumns(
        indices=torch.randint(0, N_CASES, (batch_size,), generator=generator),
        stale_losses=torch.rand(batch_size, generator=generator),
        probabilities=torch.full((batch_size,), 1 / N_CASES),
        shares=torch.full((batch_size,), 1 / N_CASES),
        explored=0 * ones,
        betas=beta * ones,
        losses=torch.nan * ones,
        weights=ones,
        clipped=0 * ones,
    )
    data = torch.randn(batch_size, 1, *setting.patch_size, generator=generator)
    batch: Batch = {"data": data, "target": targets, ENTRY: draws.rows()}
    if trainer.device.type == "cuda":
        batch = {
            key: [tensor.pin_memory() for tensor in value]
            if isinstance(value, list)
            else value.pin_memory()
            for key, value in batch.items()
        }
    return {**batch, "keys": np.array([f"case_{i}" for i in draws.indices.tolist()])}


@contextlib.contextmanager
def _environment(**variables: str) -> Any:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def as_nnunet_sets_cudnn() -> None:
    """Let cuDNN measure its algorithms, as `nnUNetv2_train` does."""
    cudnn.deterministic = False
    cudnn.benchmark = True


def forget_everything_compiled() -> None:
    """Free what earlier settings left.

    Without this, PyTorch compiles the next one with dynamic shapes.
    """
    gc.collect()
    torch._dynamo.reset()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def peak_memory(name: str, setting: Setting, device: torch.device, **how: Any) -> int:
    """Bytes on the GPU at the peak of a training step of a trainer that is alone there."""
    forget_everything_compiled()
    trainer = make_trainer(name, setting, device, **how)
    batch = make_batch(trainer, setting, seed=0)
    for _ in range(5):  # the first make the optimiser's momentum, and time ways to the result
        trainer.train_step(batch)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        trainer.train_step(batch)
    return torch.cuda.max_memory_allocated()


def count_synchronisations(trainer: nnUNetTrainer, batch: Batch) -> int:
    """How often a training step waits for the GPU."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trainer.train_step(batch)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(warning.message) for warning in caught)
