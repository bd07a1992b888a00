"""Share of each channel of the network's output among the voxels that it is trained on."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from joblib import Parallel, cpu_count, delayed
from torch import distributed as dist

#: Label that nnU-Net's preprocessing writes outside of the nonzero mask; its augmentation turns it
#: into background.
OUTSIDE = -1

#: Number of voxels that are counted at a time, few enough for the cache of the processor.
BLOCK = 2**18
#: Largest number of threads; more would wait for the disk.
MOST_JOBS = 8


def voxel_shares(trainer: Any) -> tuple[float, ...]:
    """Share of each label (background first), or of each region, among the training voxels.

    The voxels are counted once, and the counts kept for other folds and trainings beside the
    preprocessed data. Every rank may call this, and waits for no other.
    """
    dataset, _ = trainer.get_tr_and_val_datasets()
    # The input of a cascade is not counted, so it need not be opened.
    dataset.folder_with_segs_from_previous_stage = None
    n_ranks = dist.get_world_size() if trainer.is_ddp else 1
    folder = Path(trainer.preprocessed_dataset_folder)
    counts = voxel_counts(
        dataset,
        dataset.identifiers,
        folder=folder,
        cache=folder.with_name(f"{folder.name}_voxel_counts.json"),
        log=trainer.print_to_log_file,
        jobs=max(1, min(MOST_JOBS, cpu_count() // n_ranks)),
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
        n_inside = _in_any_of(counts, labels)
        shares.append((n_inside + 1) / (n_annotated + 2))
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
    cache: Path,
    log: Callable[[str], object],
    jobs: int = 1,
) -> dict[str, dict[int, int]]:
    """Number of voxels by case and label, as stored.

    `OUTSIDE` and the ignore label are labels like others. Counts in the file ``cache`` are used
    again for a case whose file in ``folder`` has the same size and the same modification time to
    the second, which copying preserves. A cache that cannot be read is created again.
    """
    stamps = {case: _stamp(folder, case) for case in cases}
    counts = {}
    for case, entry in _read(cache).items():
        if case in stamps and stamps[case] == (entry["bytes"], entry["modified_s"]):
            counts[case] = entry["voxels"]

    missing = [case for case in stamps if case not in counts]
    if missing:
        log(
            f"Counting the voxels of each label in {len(missing)} of {len(stamps)} training cases, "
            f"to keep in {cache}"
        )
        count = delayed(_count_case)
        counted = Parallel(n_jobs=jobs, prefer="threads")(
            count(dataset, case, folder) for case in missing
        )
        counts.update(zip(missing, counted, strict=True))

        entries = {}
        for case in missing:
            stamp = stamps[case]
            if stamp is not None:
                size, modified = stamp
                entries[case] = {"bytes": size, "modified_s": modified, "voxels": counts[case]}
        try:
            _write(cache, entries)
        except OSError as error:
            log(
                f"WARNING: could not keep the numbers of voxels ({error}). The next training will "
                "count them again."
            )
    return {case: counts[case] for case in stamps}


def _count_case(dataset: Any, case: str, folder: Path) -> dict[int, int]:
    """Number of voxels of each label in the segmentation of a case, by ascending label."""
    try:
        segmentation = dataset.load_case(case)[1]
        counts: Counter[int] = Counter()
        for slab in _slabs(segmentation):
            counts.update(count_labels(slab))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"Training case {case!r} must be preprocessed, but it is not in {folder}: {error}. "
            "Run nnUNetv2_preprocess again, or remove the case from splits_final.json."
        ) from error
    except Exception as error:  # each file format has its own errors for broken files
        raise ValueError(
            f"The segmentation of training case {case!r} in {folder} must be readable: {error}. "
            "Run nnUNetv2_preprocess again."
        ) from error
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
        slab = segmentation[:1, start : start + depth]
        yield np.asarray(slab)


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


def _stamp(folder: Path, case: str) -> tuple[int, int] | None:
    """Size in bytes and modification time in seconds of a case's segmentation.

    It is None if nnU-Net has no such file.
    """
    # If there is an .npz file, nnU-Net unpacks _seg.npy from it when a training starts.
    for name in (f"{case}_seg.b2nd", f"{case}.npz", f"{case}_seg.npy"):
        try:
            status = os.stat(folder / name)
        except OSError:
            continue
        return status.st_size, int(status.st_mtime)
    return None


def _read(cache: Path) -> dict[str, dict[str, Any]]:
    """The entries of the cache by case, without invalid ones."""
    try:
        entries = json.loads(cache.read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(entries, dict):
        return {}

    valid: dict[str, dict[str, Any]] = {}
    for case, entry in entries.items():
        try:
            valid[case] = {
                "bytes": int(entry["bytes"]),
                "modified_s": int(entry["modified_s"]),
                "voxels": {int(label): int(n) for label, n in entry["voxels"].items()},
            }
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
    return valid


def _write(cache: Path, entries: dict[str, dict[str, Any]]) -> None:
    """Add entries to the cache.

    Ranks and folds may write at the same time. Each writes a file of its own, and the last one
    replaces the others; it first reads what others wrote meanwhile. Entries that are lost all the
    same are counted again.
    """
    own = cache.with_name(f"{cache.stem}.{uuid4().hex}{cache.suffix}")
    try:
        own.write_text(json.dumps(_read(cache) | entries))
        own.replace(cache)
    finally:
        own.unlink(missing_ok=True)
