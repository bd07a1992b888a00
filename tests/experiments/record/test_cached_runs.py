import json
from io import StringIO

import pytest
from rich.console import Console

from experiments.record import cache_folder, cached_runs

SILENT = Console(quiet=True)


def one(name):
    return 1.0


def test_cache_folder_follows_the_users_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("digits") == tmp_path / "nnunet-dro" / "digits"


def test_cached_runs_goes_on_after_an_interruption(tmp_path):
    made = []

    def make(name, progress):
        if name == "b" and len(made) == 1:
            raise KeyboardInterrupt
        made.append(name)
        progress(0.5)
        return {"name": name, "curve": [1.5, 2.5]}

    runs = {"a": {"beta": 0}, "b": {"beta": 1}}
    with pytest.raises(KeyboardInterrupt):
        cached_runs(tmp_path, runs, make, minutes=one, console=SILENT)
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]
    made.append("interrupted")
    results = cached_runs(tmp_path, runs, make, minutes=one, console=SILENT)
    assert made == ["a", "interrupted", "b"]
    assert results == {name: {"name": name, "curve": [1.5, 2.5]} for name in "ab"}


def test_cached_runs_makes_a_run_with_other_settings_anew(tmp_path):
    def make(name, progress):
        return {"count": len(list(tmp_path.iterdir()))}

    first = cached_runs(tmp_path, {"a": {"epochs": 1}}, make, minutes=one, console=SILENT)
    other = cached_runs(tmp_path, {"a": {"epochs": 2}}, make, minutes=one, console=SILENT)
    again = cached_runs(tmp_path, {"a": {"epochs": 1}}, make, minutes=one, console=SILENT)
    assert (first, other, again) == ({"a": {"count": 0}}, {"a": {"count": 1}}, {"a": {"count": 0}})
    assert {json.loads(path.read_text())["settings"]["epochs"] for path in tmp_path.iterdir()} == {1, 2}


def test_cached_runs_says_how_long_those_will_take_that_are_not_there(tmp_path):
    def make(name, progress):
        return {"name": name}

    def said(*names):
        console = Console(file=StringIO(), width=120)
        cached_runs(
            tmp_path, {name: {"of": name} for name in names}, make, minutes={"a": 8, "b": 4}.get, console=console
        )
        return console.file.getvalue()

    assert said("a").startswith("1 run to make: about 8 min of a processor core.")
    assert said("a", "b").startswith("1 run to make: about 4 min of a processor core.")
    assert said("a", "b") == ""


def test_cached_runs_takes_what_another_command_has_made_in_the_meantime(tmp_path):
    def make(name, progress):
        if name == "a":
            cached_runs(tmp_path, {"b": {"of": "b"}}, other, minutes=one, console=SILENT)
        return {"made": "here"}

    def other(name, progress):
        return {"made": "elsewhere"}

    results = cached_runs(tmp_path, {name: {"of": name} for name in "ab"}, make, minutes=one, console=SILENT)
    assert results == {"a": {"made": "here"}, "b": {"made": "elsewhere"}}
