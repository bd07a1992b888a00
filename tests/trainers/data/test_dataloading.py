import multiprocessing
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from batchgenerators.dataloading.nondet_multi_threaded_augmenter import NonDetMultiThreadedAugmenter
from batchgenerators.dataloading.single_threaded_augmenter import SingleThreadedAugmenter
from nnunetv2.preprocessing.preprocessors.default_preprocessor import DefaultPreprocessor
from nnunetv2.training.dataloading.data_loader import nnUNetDataLoader
from scipy.stats import chisquare

from nnunet_dro.sampling import HardnessTable, expected_draws
from nnunet_dro.trainers.data.dataloading import (
    DrawsByHardness,
    HardnessDataLoader,
    loader_of,
    put_loader,
)
from nnunet_dro.trainers.data.subvolumes import Subvolumes, subvolumes_of
from tests.processes import running
from tests.trainers.draws import draws_of

LABELS = [0, 1, 2]
IGNORE = 3
ANNOTATED = (-1, *LABELS)


def test_workers_change_what_they_draw():
    """However they are started; the scenario prints a line for each way."""
    words = ("-m", "tests.trainers.data.worker_scenario", "fork", "spawn", "forkserver")
    result = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=600)

    assert result.returncode == 0, result.stderr

    for line in result.stdout.splitlines():
        before, hard, after, n_unseen = map(float, line.split())
        assert before < 0.3, "nothing is hard yet: two cases of 20 are in a batch"
        assert hard > 0.98, "in every batch, once its loss is known"
        assert after < 0.5, "and no longer once it is easy"
        assert n_unseen == 0


def test_batches_carry_their_draws(start):
    trainer, loader = start("nnUNetTrainerHWS_beta10")
    table = trainer.hardness_log.table

    first = next(loader)

    assert draws_of(first).stale_losses.isnan().all()
    assert draws_of(first).probabilities.tolist() == pytest.approx([1 / 8, 1 / 8])

    table.update(np.arange(len(table)), np.linspace(0, 1, len(table)))
    batch = next(loader)
    indices = draws_of(batch).indices.numpy()

    assert list(batch["keys"]) == [table.cases[i] for i in indices]
    np.testing.assert_allclose(
        draws_of(batch).stale_losses.numpy(), table.losses[indices], rtol=1e-6
    )

    expected = expected_draws(table.probabilities(), size=2) / 2
    np.testing.assert_allclose(draws_of(batch).probabilities, expected[indices], rtol=1e-6)
    assert draws_of(batch).betas.tolist() == [10, 10]
    assert draws_of(batch).betas.dtype == draws_of(batch).stale_losses.dtype


@pytest.mark.parametrize("n_workers", [0, 1])
def test_an_augmenter_gets_another_loader(n_workers):
    class Numbers:
        def __init__(self, number):
            self.number = number

        def __next__(self):
            return {"number": self.number}

        def __iter__(self):
            return self

        def set_thread_id(self, thread_id):
            pass

    first = Numbers(1)
    second = Numbers(2)

    augmenter = (
        NonDetMultiThreadedAugmenter(first, None, 1, 2, wait_time=0.002)
        if n_workers
        else SingleThreadedAugmenter(first, None)
    )

    assert loader_of(augmenter) is first
    assert next(augmenter)["number"] == 1

    put_loader(augmenter, second)
    assert loader_of(augmenter) is second
    assert [next(augmenter)["number"] for _ in range(5)] == [2] * 5

    if n_workers:
        augmenter._finish()


def test_a_loader_takes_over_what_nnunet_set_up_or_is_refused(start):
    from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

    plain = start(nnUNetTrainer)[1].data_loader

    loader = HardnessDataLoader.taking_over(plain, HardnessTable(plain.indices, beta=1.0))

    for name, value in vars(plain).items():
        assert name == "get_do_oversample" or getattr(loader, name) is value
    assert loader.get_do_oversample.__self__ is loader

    class Theirs(nnUNetDataLoader):
        def __init__(self):
            pass

    with pytest.raises(TypeError, match=r"class MyLoader\(DrawsByHardness, Theirs\)"):
        HardnessDataLoader.taking_over(Theirs(), HardnessTable(["a"], beta=1.0))


def test_siblings_do_not_draw_the_same(start):
    loader = start("nnUNetTrainerHWS_beta0")[1].data_loader
    loader.table.update(np.arange(len(loader.table)), np.zeros(len(loader.table)))
    drawn = []

    for seed in (1, 1, 2):  # what nnU-Net's augmenter does in each worker
        np.random.seed(seed)
        loader.set_thread_id(0)
        drawn.append([tuple(loader.get_indices()) for _ in range(10)])

    assert drawn[0] == drawn[1] != drawn[2]


class InMemory:
    """Volumes whose voxels say where they are: channels are the three coordinates and the position
    of the case.

    Class 1 is a ball, class 2 its upper corner; ``ignored`` of the first axis is without
    annotation.
    """

    def __init__(self, shapes, *, ignored=0.0, without_foreground=()):
        self.cases = {}
        self.identifiers = [f"case_{k}" for k in range(len(shapes))]
        for k, (name, shape) in enumerate(zip(self.identifiers, shapes, strict=True)):
            grid = np.indices(shape)
            label_map = np.zeros(shape, dtype=np.int8)
            if name not in without_foreground:
                centre = np.reshape(shape, (3, 1, 1, 1)) / 2
                size = np.reshape(shape, (3, 1, 1, 1))
                ball = (((grid - centre) / size) ** 2).sum(0) < 0.1
                label_map[ball] = 1
                label_map[ball & (grid > centre).all(0)] = 2
            label_map[: int(ignored * shape[0])] = IGNORE
            data = np.concatenate([grid, np.full((1, *shape), k)]).astype(np.float32)
            locations = DefaultPreprocessor._sample_foreground_locations(
                label_map[None], [1, 2, list(ANNOTATED)]
            )
            if not ignored:
                del locations[ANNOTATED]
            self.cases[name] = data, label_map[None], None, {"class_locations": locations}

    def load_case(self, name):
        return self.cases[name]


def nnunet_loader(
    data,
    patch,
    *,
    final_patch=None,
    oversample=0.0,
    has_ignore=False,
    batch_size=20,
    cls=nnUNetDataLoader,
):
    label_manager = SimpleNamespace(all_labels=LABELS, has_ignore_label=has_ignore)
    return cls(data, batch_size, patch, final_patch or patch, label_manager, oversample)


def with_subvolumes(plain, subvolumes, cls=HardnessDataLoader, beta=3.0):
    table = HardnessTable(subvolumes.names, beta=beta, exploration=1e-4, replace=True)
    table.update(np.arange(len(table)), np.random.default_rng(0).random(len(table)))
    np.random.seed(0)  # the loader seeds itself from it
    return cls.taking_over(plain, table, subvolumes)


def centres_of(batch, patch):
    """Coordinates (b, 3) and cases (b,) of the voxels at the centres of the patches: their lower
    half is patch // 2."""
    # Without augmentation nnU-Net 2.6 has arrays.
    voxels = np.asarray(batch["data"])[(slice(None), slice(None), *(p // 2 for p in patch))].astype(
        int
    )
    return voxels[:, :3], voxels[:, 3]


def centres_of_random_crops(plain, shape):
    """The range that nnU-Net centres its random crops in, tried out: lowest and highest, each of
    shape (3,)."""
    was, plain.has_ignore = plain.has_ignore, False
    corners = np.array([plain.get_bbox(shape, False, None)[0] for _ in range(1500)])
    plain.has_ignore = was
    return corners.min(0) + np.array(plain.patch_size) // 2, corners.max(0) + np.array(
        plain.patch_size
    ) // 2


GEOMETRIES = {
    "3d": ([(12, 14, 10)], (4, 5, 6), None, (2, 3, 2)),
    "3d, a larger patch before augmentation": ([(12, 14, 10)], (8, 9, 6), (5, 6, 4), (2, 3, 2)),
    "2d": ([(5, 14, 16)], (6, 7), None, (5, 2, 2)),
    "2d, a larger patch before augmentation": ([(6, 14, 16)], (9, 10), (6, 7), (3, 3, 2)),
    "patch larger than the volume": ([(6, 7, 9)], (9, 10, 12), (8, 8, 8), (2, 2, 2)),
    "volumes of different size": (
        [(12, 14, 10), (5, 20, 8), (9, 6, 17)],
        (4, 5, 6),
        (4, 4, 4),
        (2, 3, 2),
    ),
    "more cells than voxels": ([(3, 14, 10)], (2, 5, 6), None, (5, 2, 2)),
}


@pytest.mark.parametrize("has_ignore", [False, True], ids=["fully annotated", "ignore label"])
@pytest.mark.parametrize("forced", [False, True], ids=["random", "foreground"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_patches_are_centred_in_the_cell_that_was_drawn(geometry, forced, has_ignore):
    """Or, where nnU-Net keeps patches away from the border, at the nearest centre it has."""
    shapes, patch, final_patch, grid = GEOMETRIES[geometry]
    data = InMemory(shapes, ignored=0.4 if has_ignore else 0.0)
    plain = nnunet_loader(
        data, patch, final_patch=final_patch, oversample=float(forced), has_ignore=has_ignore
    )
    ranges = [centres_of_random_crops(plain, shape) for shape in shapes]
    subvolumes = subvolumes_of(plain, grid)
    loader = with_subvolumes(plain, subvolumes, beta=0.0)
    seen = set()

    for _ in range(15):
        batch = loader.generate_train_batch()
        centres, cases = centres_of(batch, patch)
        for item, centre, case, name in zip(
            draws_of(batch).indices, centres, cases, batch["keys"], strict=True
        ):
            assert (case, name) == (subvolumes.case_of[item], data.identifiers[case])
            start, stop = subvolumes.bounds(item, shapes[case])
            lowest, highest = ranges[case]
            locations = data.cases[name][3]["class_locations"]
            wanted = []
            for key in ((1, 2), (ANNOTATED,))[not forced] if forced or has_ignore else ():
                wanted += [
                    row[1:]
                    for row in locations[key]
                    if (row[1:] >= start).all() and (row[1:] < stop).all()
                ]
            if forced and has_ignore and not wanted:
                wanted = [
                    r[1:]
                    for r in locations[ANNOTATED]
                    if (r[1:] >= start).all() and (r[1:] < stop).all()
                ]
            if wanted:
                # nnU-Net's own rule: a voxel too near the lower border is not the centre, but as
                # near as can be.
                assert tuple(centre) in {tuple(np.maximum(voxel, lowest)) for voxel in wanted}
            else:
                assert not has_ignore, "no cell without annotation is drawn"
                for c, first, last, low, high in zip(
                    centre, start, stop - 1, lowest, highest, strict=True
                ):
                    assert max(first, low) <= c <= min(last, high) or c == (
                        low if last < low else high
                    )
            seen.add(int(item))

    assert len(seen) > 0.9 * len(subvolumes)


@pytest.mark.parametrize("shape", [(1, 9, 23), (1, 30, 24)])
def test_random_crops_are_uniform_over_the_cell(shape):
    """And with one cell the same as those of nnU-Net, which keeps away from the border."""
    plain = nnunet_loader(InMemory([shape]), (9, 16), final_patch=(7, 9), batch_size=100)
    lowest, highest = centres_of_random_crops(plain, shape)
    for grid, item in (((1, 1, 1), 0), ((1, 1, 2), 1)):
        subvolumes = Subvolumes(("case_0",), grid)
        loader = with_subvolumes(plain, subvolumes)
        start, stop = subvolumes.bounds(item, shape)
        counts = np.zeros(shape, dtype=int)
        for _ in range(60):
            batch = loader.generate_train_batch()
            centres, _ = centres_of(batch, (9, 16))
            np.add.at(counts, tuple(centres[draws_of(batch).indices.numpy() == item].T), 1)
        ends = zip(start, stop, lowest, highest, strict=True)
        reachable = tuple(slice(max(a, c), min(b, d + 1)) for a, b, c, d in ends)
        assert counts[reachable].sum() == counts.sum() > 0
        assert chisquare(counts[reachable].ravel()).pvalue > 1e-3


def test_cells_are_drawn_at_random_where_nothing_is_annotated():
    """nnU-Net warns of each such crop; that there is no annotation was said when the sub-volumes
    were made."""
    data = InMemory([(8, 8, 8)], ignored=1.0)
    plain = nnunet_loader(data, (4, 4, 4), has_ignore=True, oversample=0.5, batch_size=200)
    loader = with_subvolumes(plain, subvolumes_of(plain, (2, 2, 2)), beta=0.0)
    batch = loader.generate_train_batch()

    centres, _ = centres_of(batch, (4, 4, 4))

    assert (centres // 4 == loader.subvolumes.cell_of[draws_of(batch).indices]).all()
    assert len(np.unique(draws_of(batch).indices)) == 8


def _count_cells(loader, seed, n_batches, ready, counts):
    """Counts by where the patches are, not by what the batch says of itself."""
    np.random.seed(seed)
    loader.set_thread_id(seed)
    found = np.zeros((len(loader.subvolumes.cases), *loader.subvolumes.grid), dtype=int)
    ready.wait()
    for _ in range(n_batches):
        centres, cases = centres_of(next(loader), (2, 2, 2))
        np.add.at(found, (cases, *(centres // 4).T), 1)
    counts.put(found)


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_workers_draw_cells_with_the_probabilities_that_the_table_states(start_method):
    context = multiprocessing.get_context(start_method)
    plain = nnunet_loader(InMemory([(4, 8, 8)] * 3), (2, 2, 2), batch_size=50)
    subvolumes = Subvolumes(tuple(plain.indices), (1, 2, 2))
    table = HardnessTable(subvolumes.names, beta=2.0, exploration=1e-4, replace=True)
    loader = HardnessDataLoader.taking_over(plain, table, subvolumes)
    ready = context.Event()
    counts = context.Queue()
    workers = [(loader, seed, 60, ready, counts) for seed in range(2)]
    losses = np.random.default_rng(1).normal(0, 0.5, size=12)
    with running(context, _count_cells, *workers):
        loader.table.update(np.arange(12), losses)  # when the workers have their loaders already
        ready.set()
        total = sum(counts.get(timeout=600) for _ in workers).ravel()

    expected = loader.table.probabilities()

    np.testing.assert_allclose(expected, np.exp(2 * losses) / np.exp(2 * losses).sum(), rtol=2e-3)
    assert total.sum() == 6000
    assert chisquare(total, expected * total.sum()).pvalue > 1e-3


class RarestClass(nnUNetDataLoader):
    """A loader with its own get_bbox, called in its own way: class 2 wherever there is any."""

    def get_bbox(
        self,
        data_shape,
        force_fg,
        class_locations,
        case,
        overwrite_class=None,
        verbose=False,
        *,
        note="",
    ):
        self.asked.append((case, note, class_locations))
        if force_fg and len(class_locations[2]):
            overwrite_class = 2
        return super().get_bbox(data_shape, force_fg, class_locations, overwrite_class, verbose)

    def generate_train_batch(self):
        names = self.get_indices()
        patches = []
        for j, name in enumerate(names):
            data, _, _, properties = self._data.load_case(name)
            force_fg = self.get_do_oversample(j)
            low, _ = self.get_bbox(
                data.shape[1:], force_fg, properties["class_locations"], name, note="mine"
            )
            patches.append([b + p // 2 for b, p in zip(low, self.patch_size, strict=True)])
        return {"keys": names, "centres": np.array(patches)}


class RarestClassByHardness(DrawsByHardness, RarestClass):
    pass


def test_a_loader_with_its_own_choice_of_patches_keeps_it_within_cells():
    data = InMemory([(12, 12, 12)])
    plain = nnunet_loader(data, (4, 4, 4), oversample=1.0, batch_size=100, cls=RarestClass)
    plain.asked = []
    loader = with_subvolumes(
        plain, Subvolumes(("case_0",), (2, 2, 2)), RarestClassByHardness, beta=0.0
    )
    batch = loader.generate_train_batch()

    items = draws_of(batch).indices.numpy()

    assert (batch["centres"] // 6 == loader.subvolumes.cell_of[items]).all()
    assert {asked[:2] for asked in plain.asked} == {("case_0", "mine")}

    label_map = data.cases["case_0"][1][0]
    with_class_2 = label_map[tuple(batch["centres"].T)] == 2

    assert (with_class_2 == (items == 7)).all(), (
        "class 2 is in the last cell, and there it is always preferred"
    )
    assert with_class_2.any()
    assert not with_class_2.all()

    data = InMemory([(12, 12, 12)])
    plain = nnunet_loader(data, (4, 4, 4), oversample=1.0, batch_size=20, cls=RarestClass)
    plain.asked = []
    loader = RarestClassByHardness.taking_over(plain, HardnessTable(["case_0"], beta=1.0))
    batch = loader.generate_train_batch()
    locations = data.cases["case_0"][3]["class_locations"]

    assert all(asked[2] is locations for asked in plain.asked)
    assert (data.cases["case_0"][1][0][tuple(batch["centres"].T)] == 2).all()


@pytest.mark.parametrize("n_calls", [0, 2])
def test_a_loader_that_does_not_choose_once_per_sample_is_refused(n_calls):
    class Odd(nnUNetDataLoader):
        def generate_train_batch(self):
            names = self.get_indices()
            for name in names:
                shape = self._data.load_case(name)[0].shape[1:]
                for _ in range(n_calls):
                    self.get_bbox(shape, False, None)
            return {"keys": names}

    class OddByHardness(DrawsByHardness, Odd):
        pass

    plain = nnunet_loader(InMemory([(12, 12, 12)]), (4, 4, 4), cls=Odd)

    assert OddByHardness.taking_over(
        plain, HardnessTable(["case_0"], beta=1.0)
    ).generate_train_batch()

    loader = with_subvolumes(plain, Subvolumes(("case_0",), (2, 1, 1)), OddByHardness)
    with pytest.raises(
        RuntimeError,
        match=r"`OddByHardness.generate_train_batch` must call get_bbox once per sample",
    ):
        loader.generate_train_batch()


@pytest.mark.parametrize("has_ignore", [False, True])
def test_without_subvolumes_patches_are_nnunets_bit_by_bit(has_ignore):
    class SameCases(nnUNetDataLoader):
        def get_indices(self):
            return names

    data = InMemory([(12, 14, 10), (9, 6, 17)], ignored=0.3 if has_ignore else 0.0)
    arguments = {"final_patch": (4, 4, 5), "oversample": 0.33, "has_ignore": has_ignore}
    plain = nnunet_loader(data, (6, 5, 8), cls=SameCases, **arguments)
    theirs = nnunet_loader(data, (6, 5, 8), **arguments)
    loader = HardnessDataLoader.taking_over(theirs, HardnessTable(theirs.indices, beta=1.0))
    loader.generate_train_batch()  # seeds itself from numpy's state, once
    for seed in range(3):
        np.random.seed(seed)
        mine = loader.generate_train_batch()
        names = mine["keys"]
        np.random.seed(seed)
        other = plain.generate_train_batch()
        np.testing.assert_array_equal(mine["data"], other["data"])
        np.testing.assert_array_equal(mine["target"], other["target"])


@pytest.mark.parametrize("configuration", ["3d_small", "2d_small"])
def test_batches_of_a_project_come_from_the_cells_of_its_cases(start, configuration):
    from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

    plain = start(nnUNetTrainer, configuration, kind="ignore")[1].data_loader
    expected = plain.generate_train_batch()
    subvolumes = subvolumes_of(plain, (3, 2, 1))
    loader = with_subvolumes(plain, subvolumes)
    for _ in range(3):
        batch = next(loader)
        items = draws_of(batch).indices.numpy()
        assert [name.rpartition("@")[0] for name in np.array(subvolumes.names)[items]] == list(
            batch["keys"]
        )
        assert batch["data"].shape == expected["data"].shape
        assert [t.shape for t in batch["target"]] == [t.shape for t in expected["target"]]
