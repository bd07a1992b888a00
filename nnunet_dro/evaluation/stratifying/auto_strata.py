"""Strata that nobody recorded: `--by auto:size` and the like, as columns of the case table."""

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial

import pandas as pd

from nnunet_dro.evaluation.cluster import done_on_cluster
from nnunet_dro.evaluation.options import EvaluateOptions
from nnunet_dro.evaluation.stratifying.attributes import ATTRIBUTES, CaseFiles, measure_files
from nnunet_dro.files.case_table import MISSING
from nnunet_dro.naming import name_some

_PREFIX = "auto:"

#: Up to so many different values are strata as they are; more are cut into thirds.
MOST_GROUPS = 5


def auto_names(specs: Sequence[str]) -> list[str]:
    """The attributes that are named in some `--by`, each once: ``size`` of ``centre,auto:size``."""
    pieces = [piece.strip() for spec in specs for piece in spec.split(",")]
    names = [piece.split(":")[1].strip() for piece in pieces if piece.startswith(_PREFIX)]
    if unknown := [name for name in names if name not in ATTRIBUTES]:
        known = name_some([_PREFIX + name for name in ATTRIBUTES], at_most=len(ATTRIBUTES))
        raise ValueError(
            f"`by` must name an attribute that is known, got {_PREFIX + unknown[0]!r}. Choose from: {known}."
        )
    return list(dict.fromkeys(names))


def names_columns(specs: Sequence[str]) -> bool:
    """Whether some `--by` names a column of the case table, beside attributes that are computed and edges of cuts."""
    pieces = [piece.strip() for spec in specs for piece in spec.split(",")]
    return any(not piece.startswith(_PREFIX) and not piece.lstrip("+-.")[:1].isdigit() for piece in pieces)


def measure_cases(
    files: Collection[CaseFiles],
    names: Sequence[str],
    *,
    jobs: int | None = None,
    workers: str | None = None,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
) -> dict[str, dict[str, float]]:
    """Attributes of many cases, several at a time."""
    measure = partial(_measured, names=tuple(names))
    if workers is None:
        from joblib import Parallel, delayed

        parallel = Parallel(n_jobs=jobs, prefer="threads", return_as="generator_unordered")
        results = parallel(delayed(measure)(of_case) for of_case in files)
    else:
        # The workers may run in other folders.
        results = done_on_cluster(workers, measure, [of_case.absolute() for of_case in files])
    found: dict[str, dict[str, float]] = {}
    for case, values in results:
        found[case] = values
        progress(len(found), len(files))
    return {case: found[case] for case in sorted(found)}


def _measured(files: CaseFiles, names: Sequence[str]) -> tuple[str, dict[str, float]]:
    return files.case, measure_files(files, names)


def with_auto_columns(
    table: pd.DataFrame | None,
    files: Sequence[CaseFiles],
    options: EvaluateOptions,
    progress: Callable[[int, int], None],
) -> tuple[pd.DataFrame | None, list[str], list[str]]:
    """Add the attributes that some `--by` names to the case table, and say how each is cut.

    Returns:
        The table with a column ``auto:NAME`` for each; the specs, in which an attribute with more than `MOST_GROUPS`
        different values that is not cut is cut into thirds; and a note on each attribute: what it is and how it is cut.
    """
    specs = list(options.by)
    names = auto_names(specs)
    if not names:
        return table, specs, []
    if options.images is None and (need := [_PREFIX + name for name in names if ATTRIBUTES[name].of_image]):
        raise ValueError(f"`by` must come with images for {name_some(need)}, got none. Add --images FOLDER.")
    measured = measure_cases(files, names, jobs=options.jobs, workers=options.workers, progress=progress)
    wide = pd.DataFrame({"case": [of_case.case for of_case in files]}) if table is None else table
    cut, notes = specs, []
    for name in names:
        values = {case: of_case[name] for case, of_case in measured.items()}
        known = {written(value) for value in values.values()} - {MISSING}
        if not known:
            needs = "a label in an image that varies" if ATTRIBUTES[name].of_image else "a voxel size"
            raise ValueError(f"`by` must be computed from {needs}, got no case with {_PREFIX + name!r}. Leave it out.")
        column = pd.Series({case: written(value) for case, value in values.items()})
        wide = wide.assign(**{_PREFIX + name: wide["case"].map(column).fillna(MISSING)})
        note = f"{_PREFIX}{name} is the {ATTRIBUTES[name].definition}"
        if len(known) > MOST_GROUPS:
            cut = [_in_thirds(spec, _PREFIX + name) for spec in cut]
            if cut != specs:
                note += "; it is cut into thirds of the cases, unless --by says otherwise"
        notes.append(f"{note}.")
    return wide, cut, notes


def written(value: float) -> str:
    """A value as an entry of a case table: whole numbers as they are, others with four digits; NaN is ``missing``."""
    if math.isnan(value):
        return MISSING
    return str(int(value)) if value == int(value) else f"{value:.4g}"


def _in_thirds(spec: str, attribute: str) -> str:
    """The spec, with an attribute that is not cut cut into three parts of equal size."""
    return ",".join(f"{attribute}:q3" if piece.strip() == attribute else piece for piece in spec.split(","))
