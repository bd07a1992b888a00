"""What is measured once of every preprocessed case, and kept for other folds and trainings."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from uuid import uuid4

from joblib import Parallel, cpu_count, delayed
from torch import distributed as dist

from nnunet_dro.naming import count

Value = TypeVar("Value")

#: Largest number of threads; more would wait for the disk.
_MOST_JOBS = 8


def training_dataset(trainer: Any) -> tuple[Any, int]:
    """nnU-Net's dataset of a trainer's training cases, without the input of a cascade.

    Also returned is in how many threads this rank may look at them.
    """
    dataset, _ = trainer.get_tr_and_val_datasets()
    dataset.folder_with_segs_from_previous_stage = None
    n_ranks = dist.get_world_size() if trainer.is_ddp else 1
    return dataset, max(1, cpu_count() // n_ranks)


@contextmanager
def reading(what: str, case: str, folder: Path) -> Iterator[None]:
    """Turn an error while a preprocessed case is read into one that names it and the cure.

    Args:
        what: What is read of the case: "image" or "segmentation".
        case: Name of the training case.
        folder: Folder of the preprocessed cases.

    Raises:
        FileNotFoundError: If the case is not preprocessed.
        ValueError: If its file cannot be read.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"Training case {case!r} must be preprocessed, but it is not in {folder}: {error}. "
            "Run nnUNetv2_preprocess again, or remove the case from splits_final.json."
        ) from error
    except Exception as error:  # each file format has its own errors for broken files
        raise ValueError(
            f"The {what} of training case {case!r} in {folder} must be readable: {error}. "
            "Run nnUNetv2_preprocess again."
        ) from error


@dataclass(frozen=True)
class CaseCache(Generic[Value]):
    """A JSON file with a value per case, beside the preprocessed data.

    A value is used again for a case whose file has the same size and the same modification time to
    the second, which copying preserves. A cache that cannot be read is created again.
    """

    #: Folder of the preprocessed cases.
    folder: Path
    #: End of the name of the cache, after that of the folder.
    name: str
    #: Ends of the names of the files that a case may have, the one that counts first.
    endings: tuple[str, ...]
    #: Name of the value in an entry.
    key: str
    #: Turns a value as JSON has it into one; any of the usual errors means that it is invalid.
    parse: Callable[[Any], Value]

    @property
    def file(self) -> Path:
        """The cache."""
        return self.folder.with_name(f"{self.folder.name}_{self.name}.json")

    def values(
        self,
        cases: Iterable[str],
        measure: Callable[[str], Value],
        *,
        doing: str,
        log: Callable[[str], object],
        jobs: int = 1,
        progress: Callable[[int, int], None] = lambda n_done, n_all: None,
    ) -> dict[str, Value]:
        """The value of every case, measured where the cache has none.

        Args:
            cases: Names of the cases.
            measure: Gives the value of a case; called in threads.
            doing: What is done to missing cases, for the log: "Counting the voxels in".
            log: Takes the lines of the log.
            jobs: Number of threads, 8 at most.
            progress: Called with the numbers of cases that were measured and of those to measure.
        """
        stamps = {case: self._stamp(case) for case in cases}
        values = {}
        for case, entry in self._read().items():
            if case in stamps and stamps[case] == (entry["bytes"], entry["modified_s"]):
                values[case] = entry[self.key]

        missing = [case for case in stamps if case not in values]
        if missing:
            log(
                f"{doing} {len(missing)} of {count(len(stamps), 'training case')}, which "
                f"{self.file} does not have yet"
            )
            parallel = Parallel(
                n_jobs=min(_MOST_JOBS, jobs), prefer="threads", return_as="generator"
            )
            new = {}
            measured = parallel(delayed(measure)(case) for case in missing)
            for case, value in zip(missing, measured, strict=True):
                new[case] = value
                progress(len(new), len(missing))
            values.update(new)
            self._keep(new, stamps, log)
        return {case: values[case] for case in stamps}

    def _keep(
        self,
        values: Mapping[str, Value],
        stamps: Mapping[str, tuple[int, int] | None],
        log: Callable[[str], object],
    ) -> None:
        """Add values to the cache."""
        entries = {}
        for case, value in values.items():
            stamp = stamps[case]
            if stamp is not None:
                size, modified = stamp
                entries[case] = {"bytes": size, "modified_s": modified, self.key: value}
        # Ranks and folds may write at the same time. Each writes a file of its own, and the last
        # one replaces the others; it first reads what others wrote meanwhile. Entries that are lost
        # all the same are measured again.
        own = self.file.with_name(f"{self.file.stem}.{uuid4().hex}{self.file.suffix}")
        try:
            own.write_text(json.dumps(self._read() | entries))
            own.replace(self.file)
        except OSError as error:
            log(
                f"WARNING: could not keep {self.file} ({error}). The next training will measure "
                "the cases again."
            )
        finally:
            own.unlink(missing_ok=True)

    def _stamp(self, case: str) -> tuple[int, int] | None:
        """Size in bytes and modification time in seconds of a case; None without a file."""
        for ending in self.endings:
            try:
                status = os.stat(self.folder / f"{case}{ending}")
            except OSError:
                continue
            return status.st_size, int(status.st_mtime)
        return None

    def _read(self) -> dict[str, dict[str, Any]]:
        """The entries of the cache by case, without invalid ones."""
        try:
            entries = json.loads(self.file.read_text())
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
                    self.key: self.parse(entry[self.key]),
                }
            except (AttributeError, KeyError, TypeError, ValueError):
                continue
        return valid
