"""Times an iteration of our trainers relative to nnUNetTrainer: both train on the same batches in turn, in one process.

    python benchmarks/train_step.py [--device cuda] [--iterations 60] [--trainers NAME ...] [--quick] [--out FILE]

On a GPU it also compares the peak memory and counts the device synchronisations of a step; torch.compile is used there,
as in nnU-Net (nnUNet_compile=f turns it off). The data are random. The networks are nnU-Net's U-Net for 2D and 3D
patches; they are smaller on the CPU.
"""

import argparse
import contextlib
import io
import itertools
import json
import os
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

_SCRATCH = tempfile.TemporaryDirectory()
for variable in ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results"):
    os.environ[variable] = _SCRATCH.name

from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer  # noqa: E402

from nnunet_dro.sampling import HardnessTable  # noqa: E402
from nnunet_dro.trainers.case_columns import DrawColumns  # noqa: E402
from nnunet_dro.trainers.data.trusted import trusted_batch_size  # noqa: E402
from nnunet_dro.trainers.logs.hardness_log import HardnessLog  # noqa: E402
from nnunet_dro.trainers.logs.weights_log import WeightsLog  # noqa: E402
from nnunet_dro.trainers.nnUNetTrainerL2RW import nnUNetTrainerL2RW  # noqa: E402
from nnunet_dro.trainers.registry import trainer_class  # noqa: E402

DATASET = {"channel_names": {"0": "MRI"}, "labels": {"background": 0, "a": 1, "b": 2}, "file_ending": ".nii.gz"}
#: Patch size, batch size, features per stage, and whether the Dice is a batch Dice, by name.
CPU_SETTINGS = {
    "2d, batch 12": ((96, 96), 12, (16, 32, 64, 128), True),
    "2d, batch 49": ((64, 64), 49, (16, 32, 64, 128), True),
    "3d, batch 2": ((40, 56, 40), 2, (16, 32, 64, 128), False),
    # PyTorch's convolution of a single small volume is slow on a CPU; no stage of this network is that small.
    "3d, batch 2, wide": ((56, 56, 56), 2, (32, 64, 128), False),
}
GPU_SETTINGS = {
    "2d, batch 12": ((512, 512), 12, (32, 64, 128, 256, 512, 512, 512), True),
    "2d, batch 49": ((192, 160), 49, (32, 64, 128, 256, 512, 512), True),
    "3d, batch 2": ((128, 128, 128), 2, (32, 64, 128, 256, 320, 320), False),
}
# Three stages: with two, nnU-Net's deep supervision has one output, and divides its weight of 0 by 0.
QUICK_SETTINGS = {"2d, batch 4": ((32, 32), 4, (4, 8, 8), True)}
TRAINERS = ("nnUNetTrainerDRO", "nnUNetTrainerDRO_hardPresent", "nnUNetTrainerDRO_poly1", "nnUNetTrainerL2RW")
N_CASES = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="Device to train on.")
    parser.add_argument("--iterations", type=int, default=40, help="Number of iterations to time.")
    parser.add_argument(
        "--trainers",
        nargs="+",
        default=TRAINERS,
        help="Trainers to time. The options la and vs are not possible, because they count the voxels of a dataset.",
    )
    parser.add_argument("--quick", action="store_true", help="Only time a tiny network, to check that the script runs.")
    parser.add_argument(
        "--out", type=Path, default=Path("benchmarks/results/train_step.json"), help="JSON file to write."
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    device = torch.device(arguments.device)
    usual = GPU_SETTINGS if device.type == "cuda" else CPU_SETTINGS
    settings = QUICK_SETTINGS if arguments.quick else usual
    rows = [
        {
            "setting": name,
            "trainer": trainer.removeprefix("nnUNetTrainer"),
            **measure(trainer, *setting, device, arguments.iterations),
        }
        for name, setting in settings.items()
        for trainer in arguments.trainers
    ]
    table = Table(title=f"One training iteration on {arguments.device}, relative to nnUNetTrainer's, in turn")
    for column in rows[0]:
        table.add_column(column.replace("_", " "), justify="left" if column in ("setting", "trainer") else "right")
    for row in rows:
        table.add_row(*(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console().print(table)
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"{torch.get_num_threads()} threads"
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    machine = {"torch": torch.__version__, "device": name}
    arguments.out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


def measure(trainer_name, patch_size, batch_size, features, batch_dice, device, n_iterations) -> dict[str, object]:
    plans = plans_for(patch_size, batch_size, features, batch_dice)
    plain = make(nnUNetTrainer, plans, device)
    dro = make(trainer_class(trainer_name), plans, device)
    cases = [f"case_{i}" for i in range(N_CASES)]
    dro.hardness_log = HardnessLog(HardnessTable(cases, rule=dro._make_rule(cases)), dro.options.importance)
    if isinstance(dro, nnUNetTrainerL2RW):
        n_trusted, scales = trusted_batch_size(batch_size), dro._get_deep_supervision_scales()
        dro.weights_log = WeightsLog(cases, cases[:5])
        dro.dataloader_trusted = itertools.cycle([make_batch(patch_size, n_trusted, scales, device, seed=4)])
    trainers = {"plain": plain, "dro": dro}
    scales = plain._get_deep_supervision_scales()
    batches = [make_batch(patch_size, batch_size, scales, device, seed) for seed in range(4)]
    times: dict[str, list[float]] = {"plain": [], "dro": []}
    for iteration in range(6 + n_iterations):
        # The order alternates, so that neither trainer always finds warm caches.
        order = list(trainers.items())[:: 1 if iteration % 2 else -1]
        for which, trainer in order:
            start = time.perf_counter()
            loss = trainer.train_step(batches[iteration % 4])["loss"]
            if not np.isfinite(loss):
                raise FloatingPointError(f"{type(trainer).__name__} has the loss {loss} in iteration {iteration}.")
            if iteration >= 6:
                times[which].append(time.perf_counter() - start)
    mine, theirs = np.array(times["dro"]), np.array(times["plain"])
    rng = np.random.default_rng(0)
    resampled = rng.integers(len(mine), size=(2000, len(mine)))
    low, high = np.percentile(np.median((mine / theirs)[resampled], axis=1), [2.5, 97.5])
    row: dict[str, object] = {
        "plain_ms": float(1e3 * np.median(theirs)),
        "dro_ms": float(1e3 * np.median(mine)),
        "time_ratio": float(np.median(mine / theirs)),
        "ratio_low": float(low),
        "ratio_high": float(high),
        "ratio_of_minima": float(mine.min() / theirs.min()),
    }
    if device.type == "cuda":
        memory = {which: peak_memory(trainer, batches[0]) for which, trainer in trainers.items()}
        row["memory_ratio"] = memory["dro"] / memory["plain"]
        for which, trainer in trainers.items():
            row[f"{which}_syncs"] = count_synchronisations(trainer, batches[0])
    return row


def plans_for(patch_size, batch_size, features, batch_dice) -> dict[str, object]:
    dimensions, n_stages = len(patch_size), len(features)
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


def make(cls, plans, device):
    # `initialize` only reads the file ending of the preprocessed dataset.
    folder = Path(_SCRATCH.name) / "Dataset001_Random" / "random"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "case_0.b2nd").touch()
    torch.manual_seed(0)
    with contextlib.redirect_stdout(io.StringIO()):
        trainer = cls(json.loads(json.dumps({**plans, "continue_training": False})), "benchmark", 0, DATASET, device)
        trainer.initialize()
    trainer.network.train()
    return trainer


def make_batch(patch_size, batch_size, scales, device, seed):
    generator = torch.Generator().manual_seed(seed)
    data = torch.randn(batch_size, 1, *patch_size, generator=generator)
    targets = []
    for scale in scales:
        shape = [round(size * factor) for size, factor in zip(patch_size, scale, strict=True)]
        targets.append(torch.randint(0, 3, (batch_size, 1, *shape), generator=generator).to(torch.int16))
    draws = DrawColumns(
        indices=torch.randint(0, N_CASES, (batch_size,), generator=generator),
        stale_losses=torch.rand(batch_size, generator=generator),
        probabilities=torch.full((batch_size,), 1 / N_CASES),
        shares=torch.full((batch_size,), 1 / N_CASES),
        explored=torch.zeros(batch_size),
        betas=torch.full((batch_size,), 100.0),
    )
    batch = {"data": data, "target": targets, **draws.entries()}
    if device.type == "cuda":
        pin = lambda value: [v.pin_memory() for v in value] if isinstance(value, list) else value.pin_memory()  # noqa: E731
        batch = {key: pin(value) for key, value in batch.items()}
    return batch


def peak_memory(trainer, batch) -> int:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    trainer.train_step(batch)
    return torch.cuda.max_memory_allocated()


def count_synchronisations(trainer, batch) -> int:
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trainer.train_step(batch)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(warning.message) for warning in caught)


if __name__ == "__main__":
    main()
