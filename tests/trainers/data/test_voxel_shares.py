"""Shares of the classes among the training voxels, against nnU-Net's own targets and counts by
hand."""

import json
import os
import threading
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import pytest
import torch
from batchgeneratorsv2.transforms.utils.remove_label import RemoveLabelTansform
from batchgeneratorsv2.transforms.utils.seg_to_regions import ConvertSegmentationToRegionsTransform
from nnunetv2.training.dataloading.nnunet_dataset import (
    infer_dataset_class,
    nnUNetDatasetBlosc2,
    nnUNetDatasetNumpy,
)
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer
from nnunetv2.utilities.label_handling.label_handling import LabelManager

from nnunet_dro.losses import VoxelLoss
from nnunet_dro.trainers.data.voxel_shares import (
    count_labels,
    label_shares,
    region_shares,
    voxel_counts,
    voxel_shares,
)

CASES = ("a", "b", "c")


@pytest.fixture(autouse=True)
def no_counts_from_before():
    yield
    for path in Path(os.environ["nnUNet_preprocessed"]).glob("*/*_voxel_counts.json"):
        path.unlink()


# A fold of nnU-Net's


@pytest.mark.parametrize("kind", ["labels", "regions", "ignore", "regions_ignore"])
@pytest.mark.parametrize("configuration", ["2d_small", "3d_small"])
def test_shares_are_those_of_nnunets_targets_in_the_training_cases(
    make_trainer, configuration, kind
):
    trainer = make_trainer(nnUNetTrainer, configuration, kind)
    shares = voxel_shares(trainer)

    training = trainer.get_tr_and_val_datasets()[0]

    assert len(training.identifiers) == 8

    targets = [
        nnunets_target(training.load_case(case)[1][:], trainer.label_manager)
        for case in training.identifiers
    ]
    inside = sum(target.flatten(1).sum(1) for target, _ in targets)
    n_voxels = sum(int(takes_part.sum()) for _, takes_part in targets)
    n_channels = trainer.label_manager.num_segmentation_heads
    expected = (inside + 1) / (n_voxels + (2 if trainer.label_manager.has_regions else n_channels))

    assert len(shares) == n_channels
    np.testing.assert_allclose(shares, expected.numpy(), rtol=1e-12)

    voxel_loss = VoxelLoss(
        regions=trainer.label_manager.has_regions, shares=shares, tau=1.0, gamma=0.1
    )
    assert voxel_loss.n_shares == n_channels


def nnunets_target(segmentation, labels):
    """What nnU-Net's transforms make of a segmentation: channels (c, *spatial), and which voxels
    take part."""
    sample = RemoveLabelTansform(-1, 0)(segmentation=torch.from_numpy(np.asarray(segmentation)))
    if labels.has_regions:
        regions = list(labels.foreground_regions) + (
            [labels.ignore_label] if labels.has_ignore_label else []
        )
        sample = ConvertSegmentationToRegionsTransform(regions=regions, channel_in_seg=0)(**sample)
        target = sample["segmentation"].bool()
        takes_part = ~target[-1] if labels.has_ignore_label else torch.ones_like(target[0])
        target = target[: len(labels.foreground_regions)]
    else:
        segmentation = sample["segmentation"][0]
        takes_part = (
            segmentation != labels.ignore_label
            if labels.has_ignore_label
            else torch.ones_like(segmentation) > 0
        )
        target = torch.stack([segmentation == label for label in labels.all_labels])
    return (target & takes_part).double(), takes_part


def test_a_second_training_reads_no_case_and_another_fold_its_own(make_trainer, monkeypatch):
    counted = []
    load_case = nnUNetDatasetBlosc2.load_case
    monkeypatch.setattr(
        nnUNetDatasetBlosc2,
        "load_case",
        lambda self, case: counted.append(case) or load_case(self, case),
    )
    first = make_trainer(nnUNetTrainer, fold=0)
    shares = voxel_shares(first)

    training = first.do_split()[0]

    assert sorted(counted) == sorted(training)

    counted.clear()
    assert voxel_shares(make_trainer(nnUNetTrainer, fold=0)) == shares
    assert counted == []

    other = make_trainer(nnUNetTrainer, fold=1)
    voxel_shares(other)

    assert sorted(counted) == sorted(set(other.do_split()[0]) - set(training))

    voxel_shares(make_trainer(nnUNetTrainer, "2d_small"))
    assert len(counted) == 2 + len(training), "another configuration has its own counts"


def test_cascades_and_ranks_have_the_same_shares(make_trainer):
    trainer = make_trainer(nnUNetTrainer)
    expected = voxel_shares(trainer)

    folder = Path(trainer.preprocessed_dataset_folder)

    assert infer_dataset_class(str(folder)) is nnUNetDatasetBlosc2
    assert [path.name for path in folder.parent.glob("*voxel_counts*")] == [
        f"{folder.name}_voxel_counts.json"
    ]

    next(Path(trainer.preprocessed_dataset_folder_base).glob("*_voxel_counts.json")).unlink()
    trainer.folder_with_segs_from_previous_stage = "/nowhere"

    assert voxel_shares(trainer) == expected

    torch.distributed.init_process_group(
        "gloo", rank=0, world_size=1, store=torch.distributed.HashStore()
    )
    try:
        trainer.is_ddp = True
        assert voxel_shares(trainer) == expected
    finally:
        torch.distributed.destroy_process_group()


# Shares by hand


def test_shares_of_labels_and_regions_by_hand():
    """Outside of the mask is background; the ignore label and unknown ones do not count; each label
    has one more."""
    counts = {-1: 10, 0: 29, 1: 6, 3: 1000, 9: 5}
    assert label_shares(counts, [0, 1, 2]) == pytest.approx((40 / 48, 7 / 48, 1 / 48))
    assert label_shares({}, [0, 1]) == (0.5, 0.5)

    counts = {-1: 10, 0: 29, 1: 6, 2: 3, 4: 1000}
    shares = region_shares(counts, [(1, 2), 2, (3,), (0, 1)], ignore_label=4)

    assert shares == pytest.approx((10 / 50, 4 / 50, 1 / 50, 46 / 50))
    assert region_shares({}, [1], ignore_label=None) == (0.5,)
    assert min(region_shares({1: 10**15}, [1, 2], ignore_label=None)) > 0
    assert max(region_shares({1: 10**15}, [1, 2], ignore_label=None)) < 1

    labels = LabelManager(
        {"background": 0, "inner": [2], "outer": [1, 2], "ignore": 3}, regions_class_order=[2, 1]
    )
    assert labels.has_regions

    shares = region_shares(
        {0: 60, 1: 30, 2: 10, 3: 50}, labels.foreground_regions, ignore_label=labels.ignore_label
    )
    assert shares == pytest.approx((11 / 102, 41 / 102))


# Counting


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.float32])
@pytest.mark.parametrize("n_labels", [1, 5, 128])
def test_labels_are_counted_as_by_numpy(dtype, n_labels):
    rng = np.random.default_rng(0)
    lowest = 0 if dtype == np.uint8 else -1
    values = rng.integers(lowest, n_labels, size=(1, 90, 80, 75)).astype(dtype)
    values[0, :40] = lowest

    labels, counts = np.unique(values, return_counts=True)

    assert count_labels(values) == dict(
        zip(labels.astype(int).tolist(), counts.tolist(), strict=True)
    )
    assert count_labels(values[:, ::2].transpose(0, 3, 1, 2)) == count_labels(values[:, ::2].copy())


def test_floats_are_cut_off_as_nnunet_does_and_nothing_is_nothing():
    assert count_labels(np.array([[2.0001, 0.0, -1.0]], dtype=np.float32)) == {2: 1, 0: 1, -1: 1}
    assert count_labels(np.zeros((1, 0, 3), dtype=np.int8)) == {}


def made_dataset(folder, dataset_class, seed=0, cases=CASES, shape=(30, 41, 37)):
    """Cases with labels -1 to 2, of which `c` has no 2."""
    rng = np.random.default_rng(seed)
    expected = {}
    for case in cases:
        segmentation = rng.integers(-1, 2 if case == "c" else 3, size=(1, *shape)).astype(np.int8)
        settings = (
            {}
            if dataset_class is nnUNetDatasetNumpy
            else {"chunks": (1, 7, 20, 16), "blocks": (1, 7, 10, 8)}
        )
        for path in Path(folder).glob(f"{case}[_.]*"):
            path.unlink()
        image = np.zeros(segmentation.shape, dtype=np.float32)
        dataset_class.save_case(image, segmentation, {}, str(Path(folder) / case), **settings)
        labels, counts = np.unique(segmentation, return_counts=True)
        expected[case] = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    return expected


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "nnUNetPlans_3d_fullres"
    folder.mkdir()
    return folder


def cache_of(folder):
    return folder.with_name(f"{folder.name}_voxel_counts.json")


def counted(dataset, folder, *, cases=CASES, log=None, jobs=1):
    return voxel_counts(dataset, cases, folder=folder, log=log or (lambda line: None), jobs=jobs)


class OnlySegmentations(nnUNetDatasetBlosc2):
    """Images must not be looked at."""

    n_loaded = 0

    def load_case(self, identifier):
        self.n_loaded += 1
        _, *others = super().load_case(identifier)
        return None, *others


@pytest.mark.parametrize("jobs", [1, 3])
def test_chunked_segmentations_are_counted_without_their_images(folder, jobs):
    expected = made_dataset(folder, nnUNetDatasetBlosc2)
    assert counted(OnlySegmentations(str(folder)), folder, jobs=jobs) == expected


@pytest.mark.parametrize("unpacked", [False, True])
def test_numpy_segmentations_are_counted(folder, unpacked):
    expected = made_dataset(folder, nnUNetDatasetNumpy)
    dataset = nnUNetDatasetNumpy(str(folder))

    assert counted(dataset, folder) == expected

    if unpacked:
        nnUNetDatasetNumpy.unpack_dataset(str(folder), num_processes=1)
        dataset.load_case = None
        assert counted(dataset, folder) == expected, "what is unpacked is not new"
        cache_of(folder).unlink()
        assert counted(nnUNetDatasetNumpy(str(folder)), folder) == expected


def test_large_segmentations_are_read_in_parts(folder, monkeypatch):
    monkeypatch.setattr("nnunet_dro.trainers.data.voxel_shares.BLOCK", 1000)
    expected = made_dataset(folder, nnUNetDatasetBlosc2)
    parts = []
    read = OnlySegmentations.load_case

    class Parts(OnlySegmentations):
        def load_case(self, identifier):
            data, segmentation, *others = read(self, identifier)
            return data, Recorded(segmentation), *others

    class Recorded:
        def __init__(self, array):
            self.array, self.shape, self.chunks = array, array.shape, array.chunks

        def __getitem__(self, key):
            parts.append((key[1].start, key[1].stop))
            return self.array[key]

    assert counted(Parts(str(folder)), folder) == expected
    assert parts == [(start, start + 7) for start in range(0, 30, 7)] * 3, "along the chunks"


def test_what_trains_nothing_counts_no_voxels(make_trainer, monkeypatch):
    def refuse(trainer):
        raise FileNotFoundError("the training cases")

    monkeypatch.setattr("nnunet_dro.trainers.hardness_weighted.voxel_shares", refuse)
    trainer = make_trainer("nnUNetTrainerDRO_la1")
    trainer.initialize()  # all that `--val` does before it predicts

    with pytest.raises(FileNotFoundError, match="the training cases"):
        trainer.on_train_start()


# What is kept


def test_counts_are_kept_by_case_and_label(folder, monkeypatch):
    expected = made_dataset(folder, nnUNetDatasetBlosc2)
    lines = []
    for _ in range(2):
        counted(nnUNetDatasetBlosc2(str(folder)), folder, log=lines.append)

    cache = cache_of(folder)
    where = f"which {cache} does not have yet"

    assert lines == [f"Counting the voxels of each label in 3 of 3 training cases, {where}"]

    kept = json.loads(cache.read_text())
    assert {
        case: {int(label): n for label, n in entry["voxels"].items()}
        for case, entry in kept.items()
    } == expected
    assert kept["a"]["bytes"] == (folder / "a_seg.b2nd").stat().st_size
    assert sorted(path.name for path in folder.parent.iterdir()) == [
        folder.name,
        cache_of(folder).name,
    ]

    cache.unlink()
    counted(nnUNetDatasetBlosc2(str(folder)), folder, cases=["a"], log=lines.append)

    assert lines[1] == f"Counting the voxels of each label in 1 of 1 training case, {where}"

    cache.unlink()
    write_text = Path.write_text

    def refuse(path, *arguments, **settings):
        if path.parent == folder.parent:
            raise PermissionError(13, "Permission denied", str(path))
        return write_text(path, *arguments, **settings)

    monkeypatch.setattr(Path, "write_text", refuse)

    assert counted(nnUNetDatasetBlosc2(str(folder)), folder, log=lines.append) == expected
    assert lines[-1].startswith(f"WARNING: could not keep {cache} ([Errno 13]")
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_case_that_was_preprocessed_again_is_counted_again(folder):
    """In the same second, with another size."""
    made_dataset(folder, nnUNetDatasetBlosc2)
    dataset = OnlySegmentations(str(folder))
    before = counted(dataset, folder)
    time = (folder / "b_seg.b2nd").stat().st_mtime
    changed = made_dataset(folder, nnUNetDatasetBlosc2, cases=("b",), shape=(40, 41, 37))
    os.utime(folder / "b_seg.b2nd", (time, time))

    dataset.n_loaded = 0

    for _ in range(2):
        assert counted(dataset, folder) == before | changed != before
        assert dataset.n_loaded == 1


@pytest.mark.parametrize(("seconds", "n_new"), [(2, 1), (-2, 1), (0, 0)])
def test_a_file_of_another_second_is_counted_again(folder, seconds, n_new):
    """Newer, or older as from a backup; not if a copy lost the fractions of its second."""
    made_dataset(folder, nnUNetDatasetBlosc2)
    dataset = OnlySegmentations(str(folder))
    expected = counted(dataset, folder)
    time = int((folder / "b_seg.b2nd").stat().st_mtime) + seconds
    os.utime(folder / "b_seg.b2nd", (time, time))

    dataset.n_loaded = 0

    for _ in range(2):
        assert counted(dataset, folder) == expected
        assert dataset.n_loaded == n_new


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"3",
        b'{"a": 3}',
        b'{"a": {"bytes": 1}}',
        b'{"a": {"voxels": []}, "b": null}',
    ],
)
def test_a_file_of_counts_that_is_not_understood_is_made_anew(folder, content):
    expected = made_dataset(folder, nnUNetDatasetBlosc2)
    cache_of(folder).write_bytes(content)

    dataset = OnlySegmentations(str(folder))

    for _ in range(2):
        assert counted(dataset, folder) == expected
    assert dataset.n_loaded == len(CASES)


def test_many_may_count_and_write_at_the_same_time(folder):
    """As the ranks of a training and the folds of a dataset do."""
    cases = tuple("abcdefgh")
    expected = made_dataset(folder, nnUNetDatasetBlosc2, cases=cases)
    results = []
    start = threading.Barrier(6)

    def work():
        dataset = nnUNetDatasetBlosc2(str(folder))
        start.wait()
        results.extend(counted(dataset, folder, cases=cases) for _ in range(3))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join()

    assert results == [expected] * 18
    assert set(json.loads(cache_of(folder).read_text())) == set(cases)
    assert sorted(path.name for path in folder.parent.iterdir()) == [
        folder.name,
        cache_of(folder).name,
    ]


def test_cases_of_another_format_are_counted_each_time(folder):
    """A trainer's own dataset class, whose files are unknown here."""

    class Own:
        n_loaded = 0

        def load_case(self, case):
            self.n_loaded += 1
            return None, np.full((1, 2, 2, 2), CASES.index(case), dtype=np.int16), None, {}

    dataset = Own()

    for _ in range(2):
        assert counted(dataset, folder) == {"a": {0: 8}, "b": {1: 8}, "c": {2: 8}}
    assert dataset.n_loaded == 6


# What is refused


def test_a_segmentation_that_is_missing_or_broken_is_named(folder):
    made_dataset(folder, nnUNetDatasetBlosc2)
    (folder / "b_seg.b2nd").unlink()

    message = r"^Training case 'b' must be preprocessed.*Run nnUNetv2_preprocess again"

    with pytest.raises(FileNotFoundError, match=message):
        counted(nnUNetDatasetBlosc2(str(folder)), folder)

    made_dataset(folder, nnUNetDatasetBlosc2)
    path = folder / "b_seg.b2nd"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    with pytest.raises(
        ValueError, match=r"^The segmentation of training case 'b' in .* must be readable"
    ):
        counted(nnUNetDatasetBlosc2(str(folder)), folder)

    class Broken:
        def load_case(self, case):
            raise BadZipFile("File is not a zip file")

    with pytest.raises(
        ValueError, match=r"case 'a' .* must be readable: File is not a zip file. Run nnUNetv2_prep"
    ):
        counted(Broken(), folder)
