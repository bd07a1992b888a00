import json
import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from experiments.record.runs import add_jobs, announcement, cache_folder, make_runs
from nnunet_dro.nnunet.command import CommandError


@dataclass(frozen=True)
class Settings:
    beta: float
    shares: tuple[float, ...] = (0.5,)


def made(folder, make, runs=None, *, jobs=1, minutes=lambda settings: 1.0):
    runs = {name: Settings(beta) for beta, name in enumerate("ab")} if runs is None else runs
    return make_runs(folder, runs, lambda name, _: make(name), minutes=minutes, jobs=jobs)


def test_cache_folder_follows_the_users_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("digits") == tmp_path / "nnunet-dro" / "digits"


def test_runs_go_on_after_an_interruption(tmp_path):
    names = []

    def make(name):
        if name == "b" and len(names) == 1:
            raise KeyboardInterrupt
        names.append(name)
        return {"name": name, "curve": (1.5, 2.5)}

    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, make)
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]

    names.append("interrupted")
    results, failures = made(tmp_path, make)

    assert names == ["a", "interrupted", "b"]
    assert results == {name: {"name": name, "curve": [1.5, 2.5]} for name in "ab"}
    assert failures == {}


def test_a_run_with_other_settings_is_made_anew(tmp_path):
    def make(name):
        return {"count": len(list(tmp_path.iterdir()))}

    counts = [made(tmp_path, make, {"a": Settings(beta)})[0]["a"]["count"] for beta in (1, 2, 1)]

    assert counts == [0, 1, 0]

    kept = [json.loads(path.read_text()) for path in tmp_path.iterdir()]
    assert [content["settings"]["beta"] for content in sorted(kept, key=str)] == [1, 2]


def test_the_digest_is_that_of_earlier_versions(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.record.runs.version", lambda _: "2.15.0")
    made(tmp_path, lambda name: {}, {"DRO-seed0": Settings(100.0)})

    (path,) = tmp_path.iterdir()

    assert json.loads(path.read_text())["settings"] == {**asdict(Settings(100.0)), "shares": [0.5]}
    assert path.name == "DRO-seed0-183459b82a09.json"


@pytest.mark.parametrize(
    "error", [ValueError("no such data"), OSError("disk full"), CommandError("x", 1, [], Path())]
)
def test_a_failed_run_is_told_and_tried_again_and_the_others_go_on(tmp_path, error, capsys):
    def make(name):
        if name == "a" and not list(tmp_path.glob("b-*")):
            raise error
        return {"made": name}

    assert made(tmp_path, make) == ({"b": {"made": "b"}}, {"a": str(error)})
    assert "a: failed: " in capsys.readouterr().err
    assert made(tmp_path, make) == ({name: {"made": name} for name in "ab"}, {})


def test_what_another_command_has_made_in_the_meantime_is_taken(tmp_path):
    def make(name):
        if name == "a":
            made(tmp_path, lambda _: {"made": "elsewhere"}, {"b": Settings(1)})
        return {"made": "here"}

    assert made(tmp_path, make)[0] == {"a": {"made": "here"}, "b": {"made": "elsewhere"}}


def test_it_is_said_how_long_those_take_that_are_not_there(tmp_path, capsys):
    def said(*names):
        made(
            tmp_path,
            lambda name: {},
            {name: Settings(ord(name)) for name in names},
            minutes=lambda of: 105 - of.beta,
        )
        return capsys.readouterr().err.splitlines()

    assert said("a")[0] == "1 run to make: about 8 min of a processor core."

    before, after = said("a", "b")
    assert before == "1 run to make: about 7 min of a processor core."
    assert after.startswith("b: 0.")
    assert said("a", "b") == said() == []


def test_runs_at_the_same_time_have_processes_and_one_thread_each(tmp_path):
    def make(name):
        import torch  # here, because the other tests' processes do without

        (tmp_path / f"{name}.begun").touch()
        # However long a process takes to start, neither run ends before the other has begun.
        while len(list(tmp_path.glob("*.begun"))) < 2:
            time.sleep(0.02)
        return {"process": os.getpid(), "threads": torch.get_num_threads()}

    results, _ = made(tmp_path, make, jobs=2)

    processes = {result["process"] for result in results.values()}

    assert len(processes) == 2
    assert os.getpid() not in processes
    assert {result["threads"] for result in results.values()} == {1}


@pytest.mark.timeout(600)
def test_a_process_that_has_grown_is_replaced_without_a_word(tmp_path):
    """A process is measured after its first run and replaced after its second: two make four."""

    def grow(name):
        vars(sys).setdefault("kept_by_a_test", []).append(b"x" * 320_000_000)
        # A process looks at its memory once a second.
        time.sleep(1.1)
        return {"process": os.getpid()}

    runs = {str(number): Settings(number) for number in range(5)}
    results, _ = made(tmp_path, grow, runs, jobs=2)

    assert len({result["process"] for result in results.values()}) > 2


def test_a_request_to_terminate_ends_the_runs(tmp_path):
    beats = tmp_path / "beats"
    code = f"""
import time
from dataclasses import dataclass
from pathlib import Path
from experiments.record.runs import make_runs

@dataclass
class Settings:
    name: str

def beat(name, settings):
    for number in range(600):
        Path({str(beats)!r}).write_text(str(number))
        time.sleep(0.05)

runs = {{name: Settings(name) for name in "ab"}}
make_runs(Path({str(tmp_path)!r}), runs, beat, minutes=lambda settings: 1, jobs=2)
"""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3])
    limit = time.monotonic() + 300
    while not beats.exists() and time.monotonic() < limit:
        time.sleep(0.05)

    process.send_signal(signal.SIGTERM)

    assert process.wait(timeout=60) == 128 + signal.SIGTERM

    last = beats.stat().st_mtime_ns
    time.sleep(0.5)
    assert beats.stat().st_mtime_ns == last


def test_it_is_said_beforehand_how_long_it_takes():
    assert announcement([12, 12, 3], jobs=1) == "3 runs to make: about 27 min of a processor core."

    both = "3 runs to make, 2 at the same time: about 14 min on 2 processor cores, about 27 min in all."
    assert announcement([12, 12, 3], jobs=2) == both
    assert "about 40 min on 2" in announcement([40, 1, 1], jobs=2), "the longest sets the pace"
    assert "about 2 h 5 min" in announcement([125], jobs=1)
    assert announcement([0.05], jobs=1) == "1 run to make: less than a minute of a processor core."


def test_two_at_the_same_time_where_there_are_two_cores(monkeypatch):
    for n_cores, jobs in ((1, 1), (2, 2), (64, 2)):
        monkeypatch.setattr("experiments.record.runs.cpu_count", lambda n_cores=n_cores: n_cores)
        parser = ArgumentParser()
        add_jobs(parser)
        assert parser.parse_args([]).jobs == jobs
        assert parser.parse_args(["--jobs", "3"]).jobs == 3


@pytest.mark.parametrize("word", ["0", "-1", "two"])
def test_jobs_that_are_no_number_are_refused_in_a_line(word, capsys):
    parser = ArgumentParser()
    add_jobs(parser)

    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(["--jobs", word])
    assert (
        f"argument --jobs: must be a whole number from 1 on, got '{word}'"
        in capsys.readouterr().err
    )
