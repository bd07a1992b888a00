"""Tests of `nnunet_dro.evaluation.cluster` without a cluster."""

import joblib
import pytest

from nnunet_dro.evaluation import cluster
from nnunet_dro.evaluation.cluster import each_done, n_usable_cores


@pytest.mark.parametrize("jobs", [1, 3, None])
def test_every_item_is_done_once(jobs):
    results = each_done(lambda n: n * n, range(20), jobs=jobs, workers=None)

    assert sorted(results) == [n * n for n in range(20)]


@pytest.mark.parametrize("jobs", [1, 3, None])
def test_an_error_of_one_item_is_raised(jobs):
    results = each_done(lambda n: 1 / (n - 5), range(20), jobs=jobs, workers=None)

    with pytest.raises(ZeroDivisionError):
        list(results)


def test_the_usable_cores_are_those_that_joblib_counts():
    assert n_usable_cores() == joblib.cpu_count()


@pytest.mark.parametrize(
    ("contents", "n_cores"),
    [
        (["200000 100000"], 2),
        (["150000 100000"], 2),
        (["max 100000"], 8),
        (["50000", "100000"], 1),
        (["-1", "100000"], 8),
        ([], 8),
    ],
)
def test_a_container_has_the_cores_of_its_quota(tmp_path, monkeypatch, contents, n_cores):
    files = [tmp_path / str(number) for number in range(len(contents))] or [tmp_path / "none"]
    for file, content in zip(files, contents, strict=False):
        file.write_text(f"{content}\n")
    monkeypatch.setattr(cluster, "_QUOTAS", [files])
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)), raising=False)

    assert n_usable_cores() == n_cores
