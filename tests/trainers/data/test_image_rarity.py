"""How often training cases are drawn because their images look like few others."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from nnunetv2.training.dataloading.nnunet_dataset import nnUNetDatasetBlosc2

from nnunet_dro.sampling import with_exploration
from nnunet_dro.trainers.data.image_rarity import draws_of_rare_images

N_COMMON = 45
N_RARE = 5


def save(image, path):
    """Keep an image as nnU-Net's preprocessing does, with an empty segmentation."""
    empty = np.zeros(image.shape, np.int8)
    sizes = dict.fromkeys(("chunks", "blocks", "chunks_seg", "blocks_seg"), image.shape)
    nnUNetDatasetBlosc2.save_case(image, empty, {}, str(path), **sizes)


@pytest.fixture
def trainer(tmp_path):
    """What `draws_of_rare_images` needs of a trainer: 45 images, and five brighter ones of another
    scanner."""
    folder = tmp_path / "nnUNetPlans_2d"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(N_COMMON + N_RARE):
        shape = (1, 4, 16, 16)
        ramp = np.broadcast_to(np.linspace(-1, 1, 16), shape)
        brightest = 1 if i < N_COMMON else 4
        image = (brightest * ramp + rng.normal(0, 0.05, shape)).astype(np.float32)
        save(image, folder / f"case_{i:02d}")

    lines = []
    cases = [f"case_{i:02d}" for i in range(N_COMMON + N_RARE)]

    def datasets():
        return nnUNetDatasetBlosc2(str(folder), cases), None

    return SimpleNamespace(
        get_tr_and_val_datasets=datasets,
        preprocessed_dataset_folder=str(folder),
        is_ddp=False,
        local_rank=0,
        output_folder=str(tmp_path),
        print_to_log_file=lines.append,
        cases=cases,
        lines=lines,
    )


def test_images_of_a_rare_scanner_are_drawn_several_times_as_often(trainer):
    weights = draws_of_rare_images(trainer, cap=8.0)

    assert weights.mean() == pytest.approx(1.0)
    # A tenth of the images as if they were a fifth.
    np.testing.assert_allclose(weights[N_COMMON:] / weights[0], 2.0)
    np.testing.assert_allclose(weights[:N_COMMON], weights[0])


def test_images_are_looked_at_once(trainer, tmp_path):
    first = draws_of_rare_images(trainer, cap=8.0)
    again = draws_of_rare_images(trainer, cap=8.0)

    assert len(trainer.lines) == 3
    assert trainer.lines[0].startswith("Looking at the images of 50 of 50 training cases")
    np.testing.assert_array_equal(first, again)

    kept = json.loads((tmp_path / "nnUNetPlans_2d_fingerprints.json").read_text())
    assert len(kept["case_00"]["fingerprint_with_details"]) == 26


def test_a_table_has_every_case_those_of_rare_kinds_first(trainer, tmp_path):
    weights = draws_of_rare_images(trainer, cap=1.5)

    table = pd.read_csv(tmp_path / "rarity.csv")
    assert sorted(table["case"][:N_RARE]) == trainer.cases[N_COMMON:]
    assert table["rarity"][:N_RARE].is_monotonic_decreasing
    assert table["rarity"][N_RARE:].is_monotonic_decreasing
    assert table["rarity"].mean() == pytest.approx(1.0, rel=1e-3)

    assert (table["kind"][:N_RARE] == 1).all()
    assert not table["kind"][N_RARE:].any()

    draws = table.set_index("case")["times_as_often"]
    np.testing.assert_allclose(draws[trainer.cases], weights, rtol=1e-3)
    assert draws["case_45"] / draws["case_00"] == pytest.approx(1.5, rel=1e-3)
    named = ", ".join(f"{case} (1.4x)" for case in table["case"][:N_RARE])
    assert trainer.lines[-1] == (
        f"Kinds of images: 2 by intensities (45 cases, 5), 1 by details (50 cases). Cases of rare kinds are drawn more often: {named}"
    )


def test_no_case_is_told_more_draws_than_a_place_in_each_batch(trainer, tmp_path):
    weights = draws_of_rare_images(trainer, cap=8.0, batch_size=40)

    # The five are in every batch of 40 of the 50 cases; the 45 others share 35 places.
    draws = pd.read_csv(tmp_path / "rarity.csv").set_index("case")["times_as_often"][trainer.cases]
    np.testing.assert_allclose(draws[N_COMMON:], 50 / 40)
    np.testing.assert_allclose(draws[:N_COMMON], 35 / 45 * 50 / 40, rtol=1e-3)
    assert "case_45 (1.2x)" in trainer.lines[-1]

    np.testing.assert_array_equal(draws_of_rare_images(trainer, cap=8.0), weights)
    assert "case_45 (1.8x)" in trainer.lines[-1]


def test_images_of_one_kind_are_drawn_by_chance(trainer):
    del trainer.cases[N_COMMON:]

    weights = draws_of_rare_images(trainer, cap=4.0)

    np.testing.assert_array_equal(weights, 1.0)
    assert trainer.lines[-1].startswith("Kinds of images: 1 by intensities (45 cases), ")


def test_only_the_first_rank_writes_the_table(trainer, tmp_path):
    trainer.local_rank = 1

    draws_of_rare_images(trainer, cap=1.5)

    assert not (tmp_path / "rarity.csv").exists()


def test_an_image_with_infinite_values_is_named(trainer, tmp_path):
    image = np.full((1, 4, 16, 16), np.inf, dtype=np.float32)
    for file in (tmp_path / "nnUNetPlans_2d").glob("case_03*"):
        file.unlink()
    save(image, tmp_path / "nnUNetPlans_2d" / "case_03")

    with pytest.raises(ValueError, match=r"case_03.*finite"):
        draws_of_rare_images(trainer, cap=8.0)


def test_a_case_that_is_not_preprocessed_is_named(trainer):
    trainer.cases.append("ghost")

    with pytest.raises((FileNotFoundError, ValueError), match="ghost"):
        draws_of_rare_images(trainer, cap=8.0)


@pytest.mark.slow
def test_a_training_writes_the_table_and_draws_by_it(make_trainer):
    trainer = make_trainer("nnUNetTrainerDRO_hardest0_1epochs_1iters", "2d_small", "labels")
    trainer.initialize()

    trainer.get_dataloaders()

    assert list(trainer.hardness_log.cases) == list(
        trainer.get_tr_and_val_datasets()[0].identifiers
    )
    table = pd.read_csv(Path(trainer.output_folder) / "rarity.csv").set_index("case")
    draws = trainer.hardness_log.table
    n = len(draws)
    expected = table.loc[list(trainer.hardness_log.cases), "times_as_often"].to_numpy() / n
    assert set(table.index) == set(trainer.hardness_log.cases)
    mixed = with_exploration(expected, epsilon=draws.exploration)
    np.testing.assert_allclose(draws.probabilities(), mixed, rtol=2e-3)
