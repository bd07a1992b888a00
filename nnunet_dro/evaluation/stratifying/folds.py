"""Which cases each fold validates on."""

import warnings

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.bad_input import InputError
from nnunet_dro.naming import name_some

#: How many orders of the groups are tried until no fold is empty.
_ATTEMPTS = 50


def centres_apart(
    centre_of_case: "pd.Series[str]", groups: "pd.Series[str] | None"
) -> list[npt.NDArray[np.intp]]:
    """The positions of the cases of each centre; all cases of a group must be in one."""
    if groups is not None:
        for patient, centres in centre_of_case.astype(str).groupby(groups.to_numpy()):
            if centres.nunique() > 1:
                raise InputError(
                    "leave_out",
                    must=f"keep the cases of {groups.name!r} together",
                    got=f"{patient!r} in {name_some(sorted(centres.unique()))}",
                    cure="Correct the case table, or leave out another column.",
                )

    n_centres = len(centre_of_case.cat.categories)
    if n_centres < 2:
        raise InputError(
            str(centre_of_case.name),
            must="have two entries or more to leave one out",
            got=f"{centre_of_case.iloc[0]!r} only",
            kind="column",
        )

    centre_codes = centre_of_case.cat.codes.to_numpy()
    return [np.flatnonzero(centre_codes == code) for code in range(n_centres)]


def check_enough(groups: "pd.Series[str] | None", n: int, folds: int) -> None:
    """Check that there are folds, each of which can be given one of the cases.

    Where there are groups, it is one of these.
    """
    if folds < 2:
        raise InputError("folds", must="be at least 2", got=folds, cure="Give more folds.")
    n_units = n if groups is None else groups.nunique()
    if n_units < folds:
        unit = "cases" if groups is None else f"entries of {groups.name!r}"
        raise InputError(
            "folds",
            must=f"be at most the number of {unit}, {n_units}",
            got=folds,
            cure="Give fewer folds.",
        )


def validation_sets(
    stratum_of_case: "pd.Series[str] | None",
    groups: "pd.Series[str] | None",
    n: int,
    folds: int,
    seed: int,
) -> list[npt.NDArray[np.intp]]:
    """The positions of the validation cases of each fold.

    Args:
        stratum_of_case: The strata that are spread evenly over the folds; None for none.
        groups: What has the same entry here stays in one fold; None for nothing.
        n: Number of cases.
        folds: Number of folds.
        seed: Random seed of the division.

    Raises:
        ValueError: If not every fold can be given a case.
    """
    from sklearn import model_selection  # type: ignore[import-untyped]

    # Where every patient has one case there is nothing to keep together, and cases alone are spread
    # more evenly.
    codes = None
    if groups is not None and groups.nunique() < n:
        # The order of the groups must not depend on their names, because sites number their
        # patients.
        order = np.random.default_rng(seed).permutation(n)
        numbers, _ = pd.factorize(groups)
        codes = order[numbers]

    if stratum_of_case is not None:
        ranks = stratum_of_case.cat.codes.to_numpy().astype(np.intp)
        return _stratified(ranks, codes, folds, seed)
    if codes is None:
        splitter = model_selection.KFold(folds, shuffle=True, random_state=seed)
    else:
        splitter = model_selection.GroupKFold(folds)
    splits = splitter.split(np.zeros(n), groups=codes)
    return [validation for _, validation in splits]


def _stratified(
    ranks: npt.NDArray[np.intp], groups: npt.NDArray[np.intp] | None, folds: int, seed: int
) -> list[npt.NDArray[np.intp]]:
    """The positions of the validation cases of each fold, over which every stratum is spread.

    scikit-learn refuses if every stratum has fewer cases than there are folds. With a made-up
    stratum of one case per fold it deals out the others as usual; the made-up cases are dropped
    again.
    """
    from sklearn import model_selection

    n = len(ranks)
    if np.bincount(ranks).max() < folds:
        ranks = np.append(ranks, np.full(folds, ranks.max() + 1))
        if groups is not None:
            groups = np.append(groups, n + np.arange(folds))

    kind = model_selection.StratifiedKFold
    if groups is not None:
        kind = model_selection.StratifiedGroupKFold
    with warnings.catch_warnings():
        # It warns of rare strata; `split_notes` names them.
        warnings.simplefilter("ignore", UserWarning)
        # With few groups a fold can come out empty; another order of the groups helps.
        for attempt in range(_ATTEMPTS):
            splitter = kind(folds, shuffle=True, random_state=seed + attempt)
            splits = splitter.split(ranks, ranks, groups=groups)
            validations = [validation[validation < n] for _, validation in splits]
            if all(len(validation) for validation in validations):
                return validations

    raise InputError(
        "folds",
        must="be few enough for every fold to have a case",
        got=folds,
        cure="Give fewer folds, or leave out --stratify.",
    )
