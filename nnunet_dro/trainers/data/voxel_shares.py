"""Share of each channel of the network's output among the voxels that it is trained on."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nnunet_dro.trainers.data.case_cache import CaseCache, reading, training_dataset

#: Label that nnU-Net's preprocessing writes outside of the nonzero mask; its augmentation turns it
#: into background.
OUTSIDE = -1

#: Number of voxels that are counted at a time, few enough for the cache of the processor.
BLOCK = 2**18


def voxel_shares(trainer: Any) -> tuple[float, ...]:
    """Share of each label (background first), or of each region, among the training voxels.

    The voxels are counted once, and the counts kept for other folds and trainings beside the
    preprocessed data. Every rank may call this, and waits for no other.
    """
    dataset, jobs = training_dataset(trainer)
    counts = voxel_counts(
        dataset,
        dataset.identifiers,
        folder=Path(trainer.preprocessed_dataset_folder),
        log=trainer.print_to_log_file,
        jobs=jobs,
    )

    total: Counter[int] = Counter()
    for counts_of_case in counts.values():
        total.update(counts_of_case)

    labels = trainer.label_manager
    if labels.has_regions:
        return region_shares(total, labels.foreground_regions, ignore_label=labels.ignore_label)
    return label_shares(total, labels.all_labels)


def label_shares(counts: Mapping[int, int], labels: Sequence[int]) -> tuple[float, ...]:
    """Share of each label among the voxels of all, (n_c + 1) / (N + C) > 0.

    `OUTSIDE` counts as background.
    """
    # One voxel more of each, so that none has a share of 0.
    n_voxels = [_in_any_of(counts, [label]) + 1 for label in labels]
    total = sum(n_voxels)
    return tuple(n / total for n in n_voxels)


def region_shares(
    counts: Mapping[int, int], regions: Sequence[int | Iterable[int]], *, ignore_label: int | None
) -> tuple[float, ...]:
    """Share of the annotated voxels inside each region, (n_r + 1) / (N + 2) in (0, 1).

    `OUTSIDE` counts as background.
    """
    n_annotated = sum(n for label, n in counts.items() if label != ignore_label)

    shares = []
    for region in regions:
        labels = [region] if isinstance(region, int) else region
        shares.append((_in_any_of(counts, labels) + 1) / (n_annotated + 2))
    return tuple(shares)


def _in_any_of(counts: Mapping[int, int], labels: Iterable[int]) -> int:
    """Number of voxels with any of the labels."""
    wanted = {int(label) for label in labels}
    if 0 in wanted:
        wanted.add(OUTSIDE)

    return sum(n for label, n in counts.items() if label in wanted)


def voxel_counts(
    dataset: Any,
    cases: Iterable[str],
    *,
    folder: Path,
    log: Callable[[str], object],
    jobs: int = 1,
) -> dict[str, dict[int, int]]:
    """Number of voxels by case and label, as stored.

    `OUTSIDE` and the ignore label are labels like others. Counts of before are used again, see
    `CaseCache`.
    """
    kept = CaseCache(
        folder=folder,
        name="voxel_counts",
        # If there is an .npz file, nnU-Net unpacks _seg.npy from it when a training starts.
        endings=("_seg.b2nd", ".npz", "_seg.npy"),
        key="voxels",
        parse=lambda voxels: {int(label): int(n) for label, n in voxels.items()},
    )
    return kept.values(
        cases,
        lambda case: _count_case(dataset, case, folder),
        doing="Counting the voxels of each label in",
        log=log,
        jobs=jobs,
    )


def _count_case(dataset: Any, case: str, folder: Path) -> dict[int, int]:
    """Number of voxels of each label in the segmentation of a case, by ascending label."""
    counts: Counter[int] = Counter()
    with reading("segmentation", case, folder):
        segmentation = dataset.load_case(case)[1]
        for slab in _slabs(segmentation):
            counts.update(count_labels(slab))
    return dict(sorted(counts.items()))


def _slabs(segmentation: Any) -> Iterable[np.ndarray[Any, Any]]:
    """Parts of a segmentation of shape (1, *spatial) along the first spatial axis.

    They consist of whole chunks, so that each chunk is decompressed once.
    """
    chunks = getattr(segmentation, "chunks", None)
    depth = chunks[1] if chunks else 1

    # As many chunks as some millions of voxels have.
    n_in_plane = int(np.prod(segmentation.shape[2:]))
    n_in_chunk = depth * max(n_in_plane, 1)
    depth *= max(1, 16 * BLOCK // n_in_chunk)
    for start in range(0, segmentation.shape[1], depth):
        yield np.asarray(segmentation[:1, start : start + depth])


def count_labels(values: np.ndarray[Any, Any]) -> dict[int, int]:
    """Number of voxels of each label in an array of any shape.

    Floats are truncated, as nnU-Net truncates them.
    """
    flat = values.reshape(-1)
    counts: Counter[int] = Counter()
    for start in range(0, flat.size, BLOCK):
        block = flat[start : start + BLOCK]
        if not np.issubdtype(block.dtype, np.integer):
            block = block.astype(np.int16)

        # Comparing is faster than binning if there are few labels.
        low = int(block.min())
        high = int(block.max())
        if high - low < 16:
            labels = range(low, high + 1)
            bins = [int(np.count_nonzero(block == label)) for label in labels]
        else:
            distances = block.astype(np.int64) - low
            bins = np.bincount(distances).tolist()

        for label, n in enumerate(bins, start=low):
            if n:
                counts[label] += n
    return dict(counts)
