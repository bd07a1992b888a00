"""The search finds what looking at every combination one by one finds."""

import itertools

import numpy as np
import pytest
from scipy.stats import rankdata

from nnunet_dro.exploration.rank_sums import patients_by_size, standardised
from nnunet_dro.exploration.search import CodedAttribute, Limits, Search


def brute_force(attributes, goodness, patients, searched, limits):
    """The least z and how many combinations have enough cases, one combination after the other."""
    counted = ~np.isnan(goodness)
    found = {}
    for size in range(1, limits.max_attributes + 1):
        for chosen in itertools.combinations(attributes, size):
            for strata in itertools.product(*(attribute.strata for attribute in chosen)):
                parts = tuple((a.name, stratum) for a, stratum in zip(chosen, strata, strict=True))
                inside = [
                    np.array(a.strata)[a.codes] == s for a, s in zip(chosen, strata, strict=True)
                ]
                members = np.all(inside, axis=0)
                sizes = [(members & counted & half).sum() for half in (searched, ~searched)]
                rests = [(~members & counted & half).sum() for half in (searched, ~searched)]
                if min(*sizes, *rests) < limits.min_cases:
                    continue
                half = counted & searched
                ranks = rankdata(goodness[half])
                groups = np.where(members[half], 0, -1)
                found[parts] = standardised(groups, 1, ranks, patients_by_size(patients[half]))[0]
    return found


@pytest.mark.parametrize("max_attributes", [1, 2, 3])
@pytest.mark.parametrize("n_patients", [60, 25])
def test_it_is_brute_force(max_attributes, n_patients):
    rng = np.random.default_rng(n_patients)
    n = 60
    attributes = [
        CodedAttribute(
            name, rng.integers(0, n_strata, n), tuple(f"{name}{s}" for s in range(n_strata))
        )
        for name, n_strata in (("a", 3), ("b", 2), ("c", 4), ("d", 2))
    ]
    goodness = rng.integers(0, 12, n).astype(float)
    goodness[[3, 7]] = -np.inf
    goodness[[5, 8, 11]] = np.nan
    patients = np.arange(n) if n_patients == n else rng.integers(0, n_patients, n)
    patients = np.unique(patients, return_inverse=True)[1]
    searched = np.arange(n) % 2 == 0
    limits = Limits(max_attributes, 3)

    steps = []
    search = Search(attributes, patients, searched, limits)
    best, n_looked = search.lowest(goodness, progress=lambda: steps.append(1))

    every = brute_force(attributes, goodness, patients, searched, limits)

    assert n_looked == len(every)
    assert best.z == pytest.approx(min(every.values()))
    assert every[best.parts] == pytest.approx(best.z)
    assert len(steps) == search.n_sets


def test_of_the_same_cases_the_shortest_combination_counts():
    codes = np.tile([0, 0, 1, 1], 10)
    attributes = [
        CodedAttribute("scanner", codes, ("X", "Y")),
        CodedAttribute("centre", 1 - codes, ("B", "A")),
    ]
    attributes.append(CodedAttribute("sex", np.tile([0, 1, 0, 1], 10), ("f", "m")))
    goodness = np.where(codes == 0, 0.2, 0.8) + 0.01 * np.arange(40)

    search = Search(attributes, np.arange(40), np.arange(40) < 20, Limits(2, 3))

    best, _ = search.lowest(goodness)

    assert best.parts == (("scanner", "X"),)
    assert search.same_cases(best, np.ones(40, dtype=bool)) == [(("centre", "A"),)]


def test_combinations_need_cases_in_each_half_and_beside_them():
    attributes = [
        CodedAttribute("a", np.array([0] * 3 + [1] * 17 + [0] * 17 + [1] * 3), ("few", "many"))
    ]
    searched = np.arange(40) < 20

    def looked(min_cases):
        return Search(attributes, np.arange(40), searched, Limits(1, min_cases)).lowest(
            np.arange(40.0)
        )

    assert looked(4) == (None, 0)

    found, n_looked = looked(3)
    assert (found.parts, n_looked) == ((("a", "few"),), 2)


def test_many_strata_are_no_matter():
    rng = np.random.default_rng(0)
    attributes = [
        CodedAttribute(str(n), rng.permutation(500), tuple(map(str, range(500)))) for n in range(3)
    ]
    attributes.append(CodedAttribute("sex", rng.integers(0, 2, 500), ("f", "m")))

    _, n_looked = Search(attributes, np.arange(500), np.arange(500) < 250, Limits(3, 5)).lowest(
        rng.normal(size=500)
    )

    assert n_looked == 2
