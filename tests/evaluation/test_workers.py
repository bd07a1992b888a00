"""Cases scored on the workers of a dask cluster: the same scores, none lost and none twice."""

import os
import re
import signal
import sys

import joblib
import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation.evaluating.evaluation import evaluate
from tests.commands import done, run
from tests.evaluation.made_folders import bars, check_refused, run_evaluate, write_map, write_study

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def local_cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as made:
        yield made


@pytest.fixture
def client(local_cluster):
    with distributed.Client(local_cluster) as client:
        yield client


def n_scored_on(client):
    """How many cases the cluster's workers have scored; joblib names its tasks
    batch_of_score_unless_known_N_calls."""
    n_tasks = client.run_on_scheduler(
        lambda dask_scheduler: {
            name: p.state_counts["memory"] for name, p in dask_scheduler.task_prefixes.items()
        }
    )
    sizes = {
        name: re.fullmatch(r"batch_of_score_unless_known_(\d+)_calls", name) for name in n_tasks
    }
    return sum(int(size[1]) * n_tasks[name] for name, size in sizes.items() if size)


def test_cases_are_scored_on_a_dask_cluster(tmp_path, client):
    write_study(tmp_path, [n % 5 for n in range(12)], centre=["A", "B", "C"] * 4)
    folders = (tmp_path / "reference", tmp_path / "prediction")
    options = {"by": ["centre"], "metrics": ("dice", "hd95"), "n_resamples": 20}
    seen = []

    with joblib.parallel_config(backend="dask"):
        of_cluster = evaluate(
            *folders, **options, progress=lambda n_done, n_all: seen.append(n_done)
        )

    of_threads = evaluate(*folders, **options, jobs=2)

    pd.testing.assert_frame_equal(of_cluster.scores, of_threads.scores)
    pd.testing.assert_frame_equal(of_cluster.strata, of_threads.strata)
    assert seen == list(range(1, 13))
    assert n_scored_on(client) == 12


def test_submissions_are_scored_and_attributes_measured_on_a_scheduler(
    tmp_path, local_cluster, monkeypatch
):
    write_study(tmp_path, shifts=(0, 1, 2))
    for case in ("case_00", "case_01", "case_02"):
        write_map(tmp_path / "images" / f"{case}_0000.nii.gz", bars(4) * 50, dtype=np.float32)
    monkeypatch.chdir(tmp_path)
    tables = {}

    for where, more in (
        ("here", ["--jobs", "1"]),
        ("there", ["--workers", local_cluster.scheduler_address]),
    ):
        for words in (
            [
                "rank",
                "prediction",
                "again=prediction",
                "--evaluate",
                "reference",
                "--bootstrap",
                "0",
                "-o",
                where,
            ],
            ["strata", "images", "reference", "-o", f"{where}.csv"],
            [
                "evaluate",
                "reference",
                "prediction",
                "--by",
                "auto:size",
                "--bootstrap",
                "0",
                "-o",
                f"{where}-auto",
            ],
        ):
            done(run(*words, *more))
        ends = ("/ranks.csv", "-evaluations/again/scores.csv", ".csv", "-auto/scores.csv")
        tables[where] = [(tmp_path / f"{where}{end}").read_text() for end in ends]

    assert tables["here"] == tables["there"]


def test_a_worker_that_is_lost_loses_no_case_and_doubles_none(tmp_path, local_cluster):
    write_study(tmp_path, shifts=[n % 5 for n in range(40)])
    folders = (tmp_path / "reference", tmp_path / "prediction")
    workers = [worker.pid for worker in local_cluster.workers.values()]
    seen = []

    def progress(n_done, n_all):
        seen.append(n_done)
        if n_done == 5:
            os.kill(workers[0], signal.SIGKILL)

    scored = evaluate(
        *folders, workers=local_cluster.scheduler_address, n_resamples=0, progress=progress
    )

    expected = evaluate(*folders, jobs=2, n_resamples=0)

    assert seen == list(range(1, 41))
    pd.testing.assert_frame_equal(scored.scores, expected.scores)
    assert scored.about["inputs"]["files_sha256"] == expected.about["inputs"]["files_sha256"]


def test_a_damaged_file_is_named_and_ends_the_command_in_one_line(tmp_path, client, local_cluster):
    write_study(tmp_path, shifts=(0, 1, 2))
    (tmp_path / "prediction" / "case_01.nii.gz").write_text("no label map")

    with (
        joblib.parallel_config(backend="dask"),
        pytest.raises(ValueError, match=r"case_01\.nii\.gz"),
    ):
        evaluate(tmp_path / "reference", tmp_path / "prediction", n_resamples=0)

    result = run_evaluate(tmp_path, "--workers", local_cluster.scheduler_address)
    check_refused(result, tmp_path, "case_01.nii.gz", "Write it again")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nowhere", "foo://scheduler:1"])
def test_an_address_without_a_scheduler_is_refused(study, address, monkeypatch):
    monkeypatch.setattr("nnunet_dro.evaluation.scoring.cluster.PATIENCE_S", 0.5)
    check_refused(run_evaluate(study, "--workers", address), study, address, "dask scheduler")
    monkeypatch.setitem(sys.modules, "distributed", None)
    check_refused(
        run_evaluate(study, "--workers", address), study, 'pip install "nnunet-dro[cluster]"'
    )
