"""Tests of `nnunet_dro.evaluation.scoring.cluster` without a cluster."""

import pytest

from nnunet_dro.evaluation.scoring.cluster import each_done


@pytest.mark.parametrize("jobs", [1, 3, None])
def test_every_item_is_done_once(jobs):
    results = each_done(lambda n: n * n, range(20), jobs=jobs, workers=None)

    assert sorted(results) == [n * n for n in range(20)]


@pytest.mark.parametrize("jobs", [1, 3, None])
def test_an_error_of_one_item_is_raised(jobs):
    results = each_done(lambda n: 1 / (n - 5), range(20), jobs=jobs, workers=None)

    with pytest.raises(ZeroDivisionError):
        list(results)
