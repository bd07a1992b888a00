import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console

from experiments.record.side_by_side import Piece, add_jobs, announcement, share_in, side_by_side

SILENT = Console(quiet=True)


def process_of(progress):
    progress(0.5)
    return os.getpid(), torch.get_num_threads()


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_piece_is_done_once_and_its_result_comes_back(jobs, tmp_path):
    def piece(number):
        def run(progress):
            with (tmp_path / "began").open("a") as file:
                file.write(f"{number}\n")
            return number**2

        return Piece(run, minutes=1)

    done = dict(side_by_side({f"run {number}": piece(number) for number in range(5)}, jobs=jobs, console=SILENT))
    assert done == {f"run {number}": number**2 for number in range(5)}
    assert sorted((tmp_path / "began").read_text().split()) == ["0", "1", "2", "3", "4"]


def test_pieces_at_the_same_time_have_processes_and_one_thread_each():
    def run(progress):
        time.sleep(1)
        return process_of(progress)

    done = dict(side_by_side({name: Piece(run, 1) for name in "ab"}, jobs=2, console=SILENT))
    processes = {process for process, _ in done.values()}
    assert len(processes) == 2
    assert os.getpid() not in processes
    assert {n_threads for _, n_threads in done.values()} == {1}


def test_one_after_another_they_are_done_here():
    done = dict(side_by_side({"a": Piece(process_of, 1)}, jobs=2, console=SILENT))
    assert done["a"][0] == os.getpid()


@pytest.mark.timeout(120)
def test_a_process_that_has_grown_is_replaced_without_a_word():
    def grow(progress):
        vars(sys).setdefault("kept_by_a_test", []).append(b"x" * 320_000_000)
        # A process looks at its memory once a second.
        time.sleep(1.1)
        return os.getpid()

    done = dict(side_by_side({str(number): Piece(grow, 1) for number in range(6)}, jobs=2, console=SILENT))
    assert len(done) == 6
    assert len(set(done.values())) > 2


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_ends_the_others_and_comes_out(jobs, tmp_path):
    def fail(progress):
        raise ValueError("no such data")

    def wait(progress):
        time.sleep(20)
        (tmp_path / "ended").touch()

    start = time.monotonic()
    with pytest.raises(ValueError, match="no such data"):
        list(side_by_side({"a": Piece(fail, 1), "b": Piece(wait, 1)}, jobs=jobs, console=SILENT))
    assert time.monotonic() - start < 15
    assert not (tmp_path / "ended").exists()


def test_a_request_to_terminate_ends_the_pieces(tmp_path):
    code = f"""
import sys, time
from pathlib import Path
from rich.console import Console
from experiments.record.side_by_side import Piece, side_by_side

def wait(progress):
    Path({str(tmp_path)!r}, "began").touch()
    time.sleep(5)
    Path({str(tmp_path)!r}, "ended").touch()

list(side_by_side({{name: Piece(wait, 1) for name in "ab"}}, jobs=2, console=Console(quiet=True)))
"""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3])
    began, limit = tmp_path / "began", time.monotonic() + 60
    while not began.exists() and time.monotonic() < limit:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 128 + signal.SIGTERM
    time.sleep(6)
    assert not (tmp_path / "ended").exists()


def test_it_is_said_beforehand_how_long_it_takes():
    assert announcement([12, 12, 3], jobs=1) == "3 runs to make: about 27 min of a processor core."
    both = "3 runs to make, 2 at the same time: about 14 min on 2 processor cores, about 27 min in all."
    assert announcement([12, 12, 3], jobs=2) == both
    assert "about 40 min on 2" in announcement([40, 1, 1], jobs=2), "the longest sets the pace"
    assert "about 2 h 5 min" in announcement([125], jobs=1)
    assert announcement([0.05], jobs=1) == "1 run to make: less than a minute of a processor core."


def test_the_console_has_a_line_beforehand_and_one_for_each_piece():
    console = Console(file=StringIO(), width=120)
    list(side_by_side({"DRO-seed0": Piece(process_of, 2)}, jobs=1, console=console))
    first, second, *_ = console.file.getvalue().splitlines()
    assert first == "1 run to make: about 2 min of a processor core."
    assert second.startswith("DRO-seed0: 0.")


def test_nothing_is_said_where_nothing_is_to_do():
    console = Console(file=StringIO())
    assert list(side_by_side({}, jobs=2, console=console)) == []
    assert console.file.getvalue() == ""


def test_jobs_must_be_positive():
    with pytest.raises(ValueError, match="`jobs` must be at least 1, got 0"):
        list(side_by_side({}, jobs=0, console=SILENT))


def test_two_at_the_same_time_where_there_are_two_cores(monkeypatch):
    for n_cores, jobs in ((1, 1), (2, 2), (64, 2)):
        monkeypatch.setattr("experiments.record.side_by_side.cpu_count", lambda n_cores=n_cores: n_cores)
        parser = ArgumentParser()
        add_jobs(parser)
        assert parser.parse_args([]).jobs == jobs
        assert parser.parse_args(["--jobs", "3"]).jobs == 3


@pytest.mark.parametrize("word", ["0", "-1", "two"])
def test_jobs_that_are_no_number_are_refused_in_a_line(word, capsys):
    parser = ArgumentParser()
    add_jobs(parser)
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--jobs", word])
    assert ended.value.code == 2
    assert f"argument --jobs: must be a whole number from 1 on, got '{word}'" in capsys.readouterr().err


def test_the_share_of_a_file(tmp_path):
    path = tmp_path / "share"
    assert share_in(path) is None
    path.touch()
    assert share_in(path) == 0
    path.write_text("0.25")
    assert share_in(path) == 0.25
