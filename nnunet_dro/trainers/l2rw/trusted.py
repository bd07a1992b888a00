"""The trusted cases of a training, and the augmenter that draws them."""

from collections.abc import Sequence
from typing import Any

from batchgenerators.dataloading.nondet_multi_threaded_augmenter import NonDetMultiThreadedAugmenter
from batchgenerators.dataloading.single_threaded_augmenter import SingleThreadedAugmenter
from nnunetv2.utilities.default_n_proc_DA import get_allowed_n_proc_DA

from nnunet_dro.files.case_table import MISSING, case_table_places, find_case_table, read_cases
from nnunet_dro.naming import name_some
from nnunet_dro.sampling import UNIFORM, HardnessTable
from nnunet_dro.trainers.data.case_groups import dataset_folders
from nnunet_dro.trainers.data.dataloading import DrawsByHardness, loader_of

_COLUMN = "trusted"
#: Batches of at most this many cases have as many trusted cases; larger batches have an eighth.
_SMALL_BATCH = 4


def trusted_cases(trainer: Any, cases: Sequence[str]) -> list[str]:
    """The cases whose labels can be trusted: those with ``yes`` in the column ``trusted`` of the case table.

    Args:
        trainer: A trainer of nnU-Net.
        cases: Its training cases. A case without a row or an entry in the table is not trusted.

    Returns:
        The trusted cases among them, in their order; at least one.

    Raises:
        FileNotFoundError: If the dataset has no case table.
        ValueError: If the table has no such column, an entry is neither yes nor no, or no training case is trusted.
    """
    path = find_case_table(*dataset_folders(trainer))
    if path is None:
        places = " or ".join(str(place) for place in case_table_places(*dataset_folders(trainer)))
        raise FileNotFoundError(
            f"Learning to reweight needs a few trusted cases, but there is no case table. Write {places} with a column "
            f"`case` and a column `{_COLUMN}`: yes for cases whose label maps you have checked, otherwise no."
        )
    table = read_cases(path).set_index("case")
    if _COLUMN not in table.columns:
        raise ValueError(
            f"{path} must have a column `{_COLUMN}`, got {name_some(list(table.columns))}. Add it: yes for "
            "cases whose label maps you have checked, otherwise no."
        )
    entries = table[_COLUMN].astype(str)
    says = entries.str.strip().str.lower()
    if (wrong := ~says.isin(["yes", "no", MISSING.lower()])).any():
        case = entries.index[wrong][0]
        raise ValueError(f"`{_COLUMN}` of {case} in {path} must be yes or no, got {entries[case]!r}. Correct it.")
    trusted = set(says.index[says == "yes"])
    if found := [case for case in cases if case in trusted]:
        return found
    others = f", got yes only for other cases ({name_some(sorted(trusted))})" if trusted else ", got none"
    raise ValueError(
        f"`{_COLUMN}` in {path} must be yes for at least one of the {len(cases)} training cases of fold "
        f"{trainer.fold}{others}. Check some of their label maps (such as {cases[0]}) and mark these cases."
    )


def trusted_batch_size(n_cases: int) -> int:
    """Number of trusted cases for a batch of n cases; a small share of a large batch, as in Ren et al. 2018."""
    return n_cases if n_cases <= _SMALL_BATCH else max(_SMALL_BATCH, n_cases // 8)


def trusted_augmenter(train: Any, trusted: Sequence[str], loader_class: type[DrawsByHardness]) -> Any:
    """Create an augmenter that draws trusted cases only, uniformly.

    Args:
        train: The augmenter of the training cases that nnU-Net set up, with a loader of ``loader_class``.
        trusted: Names of the trusted cases.
        loader_class: Class of the data loader of the training cases.

    Returns:
        The augmenter, with the same augmentation as for the training cases, and as many workers as nnU-Net uses for
        validation.
    """
    loader = loader_of(train)
    table = HardnessTable(trusted, rule=UNIFORM)
    own: Any = loader_class.taking_over(loader, table)
    own.batch_size = trusted_batch_size(loader.batch_size)
    for name in ("data_shape", "seg_shape"):  # only in nnU-Net before 2.7
        if hasattr(own, name):
            setattr(own, name, (own.batch_size, *getattr(own, name)[1:]))
    if isinstance(train, SingleThreadedAugmenter):
        return SingleThreadedAugmenter(own, None)
    n_workers = max(1, get_allowed_n_proc_DA() // 2)
    return NonDetMultiThreadedAugmenter(
        own, None, n_workers, max(3, n_workers // 2), pin_memory=train.pin_memory, wait_time=train.wait_time
    )
