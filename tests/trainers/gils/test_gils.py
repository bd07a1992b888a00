"""nnUNetTrainerLS and nnUNetTrainerGILS in nnU-Net."""

import csv
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

from nnunet_dro.losses import VoxelLoss
from nnunet_dro.trainers.gils.nnUNetTrainerGILS import nnUNetTrainerGILS
from nnunet_dro.trainers.gils.perturbation import Perturbed, ascend
from nnunet_dro.trainers.gils.perturbation_log import (
    Example,
    PerturbationLog,
    draw_example,
    make_example,
)
from nnunet_dro.trainers.log.case_curves import save_picture
from nnunet_dro.trainers.nnUNetTrainerLS import nnUNetTrainerLS
from tests.trainers.draws import check_same_network, draws_of, log_of, run_epoch


def losses_of(trainer, batch):
    with torch.no_grad():
        return trainer.loss.per_case(trainer.network(batch["data"]), batch["target"]).hardness


def cross_entropies_of(trainer, batch, smoothing=0.1):
    """By resolution, weighted as nnU-Net's deep supervision is."""
    with torch.no_grad():
        outputs = trainer.network(batch["data"])
        return sum(
            weight * VoxelLoss(regions=False, smoothing=smoothing)(level, target).flatten(1).mean(1)
            for weight, level, target in zip(
                trainer.loss.plain.weight_factors, outputs, batch["target"], strict=True
            )
        )


def test_label_smoothing_is_in_the_training_loss_alone(start):
    trainer, loader = start("nnUNetTrainerLS_alpha0.3", "2d_small")
    assert trainer.loss.per_case.voxel_sums.voxel_loss.smoothing == 0.3

    batch = next(loader)
    plain = trainer.loss(
        [level.detach() for level in trainer.network(batch["data"])], batch["target"]
    )
    smoothed, hard = (
        cross_entropies_of(trainer, batch, smoothing).mean() for smoothing in (0.3, 0.0)
    )
    loss = trainer.train_step(batch)["loss"]

    assert loss == pytest.approx(float(plain + smoothed - hard), rel=1e-4)
    assert float(smoothed - hard) > 1e-4


def test_no_smoothing_is_nnunet(start):
    trainer, loader = start("nnUNetTrainerLS_alpha0", "2d_small")
    plain = start(nnUNetTrainer, "2d_small")[0]
    for _ in range(3):
        batch = next(loader)
        assert trainer.train_step(batch)["loss"] == pytest.approx(
            float(plain.train_step(batch)["loss"]), rel=1e-5
        )
    check_same_network(trainer, plain, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("configuration", ["2d_small", "3d_small"])
def test_without_ascent_it_is_label_smoothing_twice(start, monkeypatch, configuration):
    gils, loader = start("nnUNetTrainerGILS_alpha0.2", configuration)
    smoothed = start("nnUNetTrainerLS_alpha0.2", configuration)[0]

    def without_steps(network, features, data, losses, ascent, **others):
        return ascend(network, features, data, losses, replace(ascent, steps=0), **others)

    monkeypatch.setattr(f"{nnUNetTrainerGILS.__module__}.ascend", without_steps)
    for _ in range(2):
        batch = next(loader)
        loss = gils.train_step(batch)["loss"]
        smoothed.train_step(batch)
        assert loss == smoothed.train_step(batch)["loss"]
    check_same_network(gils, smoothed)


def test_first_a_step_on_the_generated_batch_and_then_one_on_the_original(start):
    trainer, loader = start("nnUNetTrainerGILS_T3_eta0.3", "2d_small")
    other = start(nnUNetTrainerLS, "2d_small")[0]
    batch = next(loader)

    generated = trainer._perturb(batch["data"], batch["target"])

    assert (generated.change > 0.01).all()
    assert (generated.surrogate_after > generated.surrogate_before).all()

    before = cross_entropies_of(trainer, batch)
    torch.testing.assert_close(generated.surrogate_before, before, rtol=1e-5, atol=1e-6)

    loss = trainer.train_step(batch)["loss"]
    other.train_step({**batch, "data": generated.data})
    hardness = losses_of(other, batch)

    assert loss == other.train_step(batch)["loss"], (
        "the loss that is reported is that of the original"
    )

    check_same_network(trainer, other)
    stale = trainer.hardness_log.table.losses
    last = {
        int(case): float(value)
        for case, value in zip(draws_of(batch).indices, hardness, strict=True)
    }

    for case, value in last.items():
        assert stale[case] == pytest.approx(value, rel=1e-4), "stale losses are of the original"
    assert trainer.hardness_log._draws.sum() == len(batch["data"]), "a case counts once"


def test_voxels_without_a_label_do_not_count(start):
    trainer, loader = start(nnUNetTrainerGILS, "3d_small", "ignore")
    batch = next(loader)
    counts = trainer._n_annotated(batch["target"])

    expected = [int((target != 3).sum()) for target in batch["target"][0]]

    assert counts.tolist() == expected
    assert min(expected) < 32**3
    assert trainer._perturb(batch["data"], batch["target"]).data.isfinite().all()

    regions, loader = start(nnUNetTrainerGILS, "3d_small", "regions_ignore")
    target = next(loader)["target"]

    assert regions._n_annotated(target).tolist() == [
        int((mark == 0).sum()) for mark in target[0][:, -1]
    ]
    assert start(nnUNetTrainerGILS, "2d_small")[0]._n_annotated(target) is None


def test_the_labels_of_the_stage_before_stay(make_trainer):
    """In a cascade they are the last channels of the input, and no image."""
    trainer = make_trainer(nnUNetTrainerGILS)
    trainer.initialize()
    trainer.is_cascaded = True
    data = torch.randn(2, 3, 32, 32, 32)
    trainer.network.encoder.stages[0][0].convs[0].conv = torch.nn.Conv3d(3, 4, 3, padding=1)
    trainer.network.encoder.stages[0][0].convs[0].all_modules[0] = torch.nn.Conv3d(
        3, 4, 3, padding=1
    )
    target = [torch.randint(0, 3, (2, 1, n, n, n)) for n in (32, 16)]

    done = trainer._perturb(data, target[: len(trainer.loss.plain.weight_factors)])

    assert torch.equal(done.data[:, 1:], data[:, 1:])
    assert not torch.equal(done.data[:, 0], data[:, 0])


class WithoutDeepSupervision(nnUNetTrainerGILS):
    def __init__(self, plans, configuration, fold, dataset_json, device=torch.device("cpu")):  # noqa: B008
        super().__init__(plans, configuration, fold, dataset_json, device)
        self.enable_deep_supervision = False


def test_it_trains_without_deep_supervision(start):
    trainer, loader = start(WithoutDeepSupervision, "2d_small")
    batch = next(loader)

    assert isinstance(batch["target"], torch.Tensor)

    before = trainer._perturb(batch["data"], batch["target"])
    assert (before.surrogate_after > before.surrogate_before).all()
    assert np.isfinite(trainer.train_step(batch)["loss"])
    assert trainer.perturbation_log.example is not None


class Headless(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.Conv2d(4, 3, 1)
        self.decoder = torch.nn.Module()

    def forward(self, x):
        return self.head(torch.nn.functional.relu(self.body(x)))


class OwnNetwork(WithoutDeepSupervision):
    @staticmethod
    def build_network_architecture(plans_manager, *_):
        return Headless()


class OwnNetworkNamed(OwnNetwork):
    features_module = "head"


def test_a_network_of_ones_own_changes_alike_in_patches_of_any_size(start, make_trainer):
    message = r"`features_module` .* Headless has no `decoder.seg_layers`, as .* body, head, dec"
    with pytest.raises(ValueError, match=message):
        make_trainer(OwnNetwork, "2d_small").initialize()

    trainer, loader = start(OwnNetworkNamed, "2d_small")
    assert np.isfinite(trainer.train_step(next(loader))["loss"])

    trainer = start(OwnNetworkNamed, "2d_small")[0]
    with torch.no_grad():
        trainer.network.head.weight.mul_(10)
    changes = []
    for size in (16, 32, 64, 128):
        data = torch.full((1, 1, size, size), -0.5)
        target = torch.zeros(1, 1, size, size)
        middle = slice(size // 2 - 2, size // 2 + 2)
        data[..., middle, middle] = 1.0
        target[..., middle, middle] = 1
        change = (trainer._perturb(data, target).data - data)[..., middle, middle]
        changes.append(float(change.square().mean().sqrt()))

    assert max(changes) / min(changes) < 1.1, changes
    assert min(changes) > 0.01


def test_the_change_of_the_images_is_bounded_on_request(start):
    trainer, loader = start("nnUNetTrainerGILS_T2_eta10_rms0.05", "2d_small")
    batch = next(loader)
    done = trainer._perturb(batch["data"], batch["target"])

    deviation = batch["data"].flatten(1).std(1, correction=0)

    assert (done.change <= 0.0501 * deviation).all()
    assert (done.change > 0.02 * deviation).all()


def test_a_warm_up_is_label_smoothing(start):
    trainer, _ = start("nnUNetTrainerGILS_T1_warmup1_2epochs", "2d_small")
    other = start(nnUNetTrainerLS, "2d_small")[0]
    trainer.on_train_start()
    trainer.on_train_epoch_start()

    batches = [next(trainer.dataloader_train) for _ in range(2)]

    for batch in batches:
        assert trainer.train_step(batch)["loss"] == other.train_step(batch)["loss"]

    check_same_network(trainer, other)
    trainer.on_train_epoch_end([{"loss": np.array(0.0)}])
    run_epoch(trainer, 1)

    with pytest.raises(AssertionError):
        check_same_network(trainer, other)

    first, second = rows_of(Path(trainer.output_folder))
    assert (first["epoch"], first["mean_change"], first["non_finite"]) == ("0", "", "0")
    assert float(second["mean_change"]) > 0

    log = log_of(trainer)
    assert "Perturbation: no batch was generated in this epoch" in log
    assert "Perturbation: root mean square change of the images" in log


def rows_of(folder):
    with (folder / "perturbations.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("kind", ["labels", "regions_ignore"])
@pytest.mark.parametrize("configuration", ["2d_small", "3d_small"])
def test_an_epoch_leaves_a_row_a_picture_and_a_line(start, configuration, kind):
    trainer, _ = start("nnUNetTrainerGILS_T2_eta0.1", configuration, kind)
    trainer.on_train_start()
    folder = Path(trainer.output_folder)
    pictures = []

    for epoch in range(2):
        run_epoch(trainer, epoch)
        pictures.append((folder / "perturbation.png").read_bytes())

    assert pictures[0] != pictures[1]

    rows = rows_of(folder)
    assert [row["epoch"] for row in rows] == ["0", "1"]
    for row in rows:
        assert 0 < float(row["mean_change"]) <= float(row["max_change"])
        assert float(row["surrogate_before"]) <= float(row["surrogate_after"])
        assert float(row["mean_feature_distance"]) > 0
        assert 0 <= float(row["rejected_share"]) <= 1
        assert row["non_finite"] == "0"

    log = log_of(trainer)
    assert log.count("Perturbation: root mean square change of the images") == 2


def test_the_numbers_of_an_epoch(tmp_path):
    log = PerturbationLog(steps=4)
    tensor = partial(torch.tensor, dtype=torch.float32)
    empty = torch.zeros(2, 1, 2, 2)
    log.record(
        Perturbed(empty, *map(tensor, ([1, 3], [2, 4], [0, 1], [1, 2], [4, 0])), tensor([0, 1]) > 0)
    )
    log.record(
        Perturbed(empty[:1], *map(tensor, ([5], [6], [float("nan")], [3], [2])), tensor([1]) > 0)
    )

    (line,) = log.end_epoch(7, tmp_path)

    assert list(log.rows[-1].values()) == [7, 3, 5, 4, 0.5, 2, 0.5, 2]
    assert "steps taken back 50 %, not finite 2" in line

    log.end_epoch(8, tmp_path)
    assert np.isnan(log.rows[-1]["mean_change"]), "nothing is left of the epoch before"


def test_the_example_is_the_slice_with_most_foreground_near_the_middle():
    original = torch.arange(2 * 2 * 9 * 3 * 3, dtype=torch.float32).reshape(2, 2, 9, 3, 3)
    target = torch.zeros(2, 1, 9, 3, 3)
    target[0, 0, 0] = 5
    target[1, 0, [2, 5, 8], :2] = 1

    example = make_example(
        original, original + 1, target, ["a", "b"], ignore_label=5, regions=False
    )

    assert example.case == "b"
    np.testing.assert_array_equal(example.original, original[1, 0, 5])
    np.testing.assert_array_equal(example.generated - example.original, 1)
    assert example.labels.sum() == 6

    regions = torch.zeros(2, 3, 3, 3)
    regions[0, :2, 1] = 1
    regions[0, 0, 2] = 1
    regions[1, 2] = 1  # nothing but voxels to ignore
    example = make_example(
        original[:, :, 0], original[:, :, 0], regions, ["a", "b"], ignore_label=9, regions=True
    )

    assert example.case == "a"
    assert example.labels.tolist() == [[0, 0, 0], [2, 2, 2], [1, 1, 1]]


@pytest.mark.parametrize(
    "labels",
    [
        np.zeros((4, 5), int),
        np.ones((4, 5), int),
        np.arange(20).reshape(4, 5),
        np.ones((1, 5), int),
    ],
)
def test_any_example_can_be_drawn(tmp_path, labels):
    image = np.zeros(labels.shape, np.float32)
    save_picture(tmp_path / "a.png", draw_example, Example("a", image, image, labels), "a, epoch 0")

    assert (tmp_path / "a.png").stat().st_size > 1000
