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

BLOCK = (
    1 << 18
)  # Number of voxels that are counted at a time, few enough for the cache of the processor.
MOST_JOBS = 8  # Largest number of threads; more would wait for the disk.


def voxel_shares(trainer: Any) -> tuple[float, ...]:
    """Share of each label (background first) or region among the training voxels, counted once and kept."""
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
    for of_case in counts.values():
        total.update(of_case)
    labels = trainer.label_manager
    if labels.has_regions:
        return region_shares(total, labels.foreground_regions, ignore_label=labels.ignore_label)
    return label_shares(total, labels.all_labels)


def label_shares(counts: Mapping[int, int], labels: Sequence[int]) -> tuple[float, ...]:
    """Share of each label among the voxels of all, (n_c + 1) / (N + C) > 0.

    `OUTSIDE` counts as background.
    """
    voxels = [_in_any_of(counts, [label]) + 1 for label in labels]
    return tuple(n / sum(voxels) for n in voxels)


def region_shares(
    counts: Mapping[int, int], regions: Sequence[int | Iterable[int]], *, ignore_label: int | None
) -> tuple[float, ...]:
    """Share of the annotated voxels inside each region, (n_r + 1) / (N + 2) in (0, 1).

    `OUTSIDE` is background.
    """
    n_annotated = sum(n for label, n in counts.items() if label != ignore_label)
    inside = [
        _in_any_of(counts, [region] if isinstance(region, int) else region) for region in regions
    ]
    return tuple((n + 1) / (n_annotated + 2) for n in inside)


def _in_any_of(counts: Mapping[int, int], labels: Iterable[int]) -> int:
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

    `OUTSIDE` and the ignore label are labels like others.

    Counts in the file ``cache`` are used again for a case whose file in ``folder`` has the same
    size and the same modification time to the second, which copying preserves. A cache that cannot
    be read is created again.
    """
    known = _read(cache)
    stamps = {case: _stamp(folder, case) for case in cases}
    counts = {
        case: known[case]["voxels"]
        for case, stamp in stamps.items()
        if case in known and stamp == (known[case]["bytes"], known[case]["modified_s"])
    }
    missing = [case for case in stamps if case not in counts]
    if missing:
        log(
            f"Counting the voxels of each label in {len(missing)} of {len(stamps)} training cases, to keep in {cache}"
        )
        counted = Parallel(n_jobs=jobs, prefer="threads")(
            delayed(_count_case)(dataset, one, folder) for one in missing
        )
        counts.update(zip(missing, counted, strict=True))
        entries = {
            case: {"bytes": stamp[0], "modified_s": stamp[1], "voxels": counts[case]}
            for case in missing
            if (stamp := stamps[case]) is not None
        }
        try:
            _write(cache, entries)
        except OSError as error:
            log(
                f"WARNING: could not keep the numbers of voxels ({error}). The next training will count them again."
            )
    return {case: counts[case] for case in stamps}


def _count_case(dataset: Any, case: str, folder: Path) -> dict[int, int]:
    try:
        segmentation = dataset.load_case(case)[1]
        counts: Counter[int] = Counter()
        for slab in _slabs(segmentation):
            counts.update(count_labels(slab))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"Training case {case!r} must be preprocessed, but it is not in {folder}: {error}. Run nnUNetv2_preprocess "
            "again, or remove the case from splits_final.json."
        ) from error
    except Exception as error:  # each file format has its own errors for broken files
        raise ValueError(
            f"The segmentation of training case {case!r} in {folder} must be readable: {error}. Run "
            "nnUNetv2_preprocess again."
        ) from error
    return dict(sorted(counts.items()))


def _slabs(segmentation: Any) -> Iterable[np.ndarray[Any, Any]]:
    """Parts of a segmentation of shape (1, *spatial) along the first spatial axis.

    Each is decompressed once.
    """
    depth = (getattr(segmentation, "chunks", None) or (1, 1))[1]
    in_plane = int(np.prod(segmentation.shape[2:]))
    depth *= max(1, 16 * BLOCK // (depth * max(in_plane, 1)))
    for start in range(0, segmentation.shape[1], depth):
        yield np.asarray(segmentation[:1, start : start + depth])


def count_labels(values: np.ndarray[Any, Any]) -> dict[int, int]:
    """Number of voxels of each label in an array of any shape.

    Floats are truncated, as nnU-Net does.
    """
    flat = values.reshape(-1)
    counts: Counter[int] = Counter()
    for start in range(0, flat.size, BLOCK):
        block = flat[start : start + BLOCK]
        if not np.issubdtype(block.dtype, np.integer):
            block = block.astype(np.int16)
        low = int(block.min())
        high = int(block.max())
        # Comparing is faster than binning if there are few labels.
        if high - low < 16:
            found = {label: int(np.count_nonzero(block == label)) for label in range(low, high + 1)}
        else:
            bins = np.bincount(block.astype(np.int64) - low)
            found = {low + int(label): int(bins[label]) for label in np.flatnonzero(bins)}
        counts.update({label: n for label, n in found.items() if n})
    return dict(counts)


def _stamp(folder: Path, case: str) -> tuple[int, int] | None:
    """Size in bytes and modification time in seconds of a case's segmentation.

    None if it is no file of nnU-Net.
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
    """The entries by case, without invalid ones."""
    try:
        entries = json.loads(cache.read_text())
    except (OSError, ValueError):
        return {}
    understood = {}
    for case, entry in entries.items() if isinstance(entries, dict) else ():
        try:
            voxels = {int(label): int(n) for label, n in entry["voxels"].items()}
            understood[case] = {name: int(entry[name]) for name in ("bytes", "modified_s")} | {
                "voxels": voxels
            }
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
    return understood


def _write(cache: Path, entries: dict[str, dict[str, Any]]) -> None:
    # Ranks and folds may write at the same time. Each writes a file of its own, and the last one
    # replaces the others; it first reads what others wrote meanwhile. Entries that are lost all the
    # same are counted again.
    own = cache.with_name(f"{cache.stem}.{uuid4().hex}{cache.suffix}")
    try:
        own.write_text(json.dumps(_read(cache) | entries))
        own.replace(cache)
    finally:
        own.unlink(missing_ok=True)
