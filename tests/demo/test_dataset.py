import filecmp
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import SimpleITK

from nnunet_dro.demo import dataset

pytest.importorskip("nilearn")

N_FEW = {
    "train": {"A": 3, "B": 2, "C": 1},
    "validation": {"A": 1},
    "test": {"A": 1, "B": 1, "C": 1},
}


@pytest.fixture(scope="module")
def template():
    return dataset.read_template()


@pytest.fixture(scope="module")
def slices(template):
    return dataset.split_slices(template)


@pytest.fixture
def build(tmp_path, monkeypatch, template):
    monkeypatch.setattr(dataset, "read_template", lambda: template)
    monkeypatch.setattr(dataset, "N_CASES", N_FEW)
    return lambda name, seed: dataset.build_dataset(
        tmp_path / name, rng=np.random.default_rng(seed)
    )


@pytest.mark.parametrize("orientation", dataset.ORIENTATIONS)
def test_test_slices_keep_a_gap_and_sagittal_ones_one_hemisphere(slices, template, orientation):
    train, test = (
        {s.index for s in slices[part] if s.orientation == orientation}
        for part in ("train", "test")
    )
    assert train
    assert test
    assert min(abs(a - b) for a in train for b in test) > dataset.GAP

    if orientation == "sagittal":
        every = {s.index for part in slices.values() for s in part if s.orientation == orientation}
        assert max(every) < template.shape[3] / 2


def test_deformation_moves_image_and_tissues_alike(slices):
    slice_ = slices["train"][0]
    grey = slice_.channels[1]
    alike = dataset.Slice("axial", 0, slice_.channels[[1, 1, 2]])

    moved = dataset.deform(alike, rng=np.random.default_rng(0)).channels

    np.testing.assert_array_equal(moved[0], moved[1])
    assert np.abs(moved[1] - grey).mean() > 0.01
    assert moved[1].sum() == pytest.approx(grey.sum(), rel=0.3)


def test_centre_c_turns_the_contrast_of_grey_and_white_matter(slices):
    slice_ = slices["train"][10]
    labels = dataset.label_map(slice_)
    means = {}

    for centre in "ABC":
        image = dataset.render(slice_, centre, rng=np.random.default_rng(0))
        means[centre] = image[labels == 2].mean() - image[labels == 1].mean()

    assert means["A"] > 5
    assert means["B"] > 5
    assert means["C"] < -5
    with pytest.raises(ValueError, match="must be A, B or C, got 'D'"):
        dataset.render(slice_, "D", rng=np.random.default_rng(0))


def test_dataset_is_whole_and_divided_as_its_table_says(build):
    folder = build("raw", 0)
    table = pd.read_csv(folder / "cases.csv")

    assert folder.name == dataset.DATASET_NAME
    assert Counter(table["centre"]) == {"A": 5, "B": 3, "C": 2}
    assert Counter(table["split"]) == {"train": 6, "validation": 1, "test": 3}

    for case, split in zip(table["case"], table["split"], strict=True):
        suffix = "Ts" if split == "test" else "Tr"
        values = SimpleITK.GetArrayFromImage(
            SimpleITK.ReadImage(str(folder / f"labels{suffix}" / f"{case}.png"))
        )
        assert values.shape == (dataset.SIZE, dataset.SIZE)
        assert set(np.unique(values)) == {0, 1, 2}
        assert (folder / f"images{suffix}" / f"{case}_0000.png").is_file()


def test_same_seed_gives_the_same_files(build):
    first = build("first", 3)
    again = build("again", 3)
    other = build("other", 4)

    names = [str(path.relative_to(first)) for path in first.rglob("*") if path.is_file()]

    assert filecmp.cmpfiles(first, again, names, shallow=False)[1:] == ([], [])
    assert len(filecmp.cmpfiles(first, other, names, shallow=False)[1]) > 10


def test_interrupted_build_leaves_no_dataset_and_is_repeated(build, monkeypatch, tmp_path):
    render = dataset.render
    monkeypatch.setattr(
        dataset, "render", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
    )

    with pytest.raises(KeyboardInterrupt):
        build("raw", 0)
    assert not (tmp_path / "raw" / dataset.DATASET_NAME).exists()

    monkeypatch.setattr(dataset, "render", render)
    assert build("raw", 0).is_dir()
