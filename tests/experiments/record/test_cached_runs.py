import json

import pytest
from rich.console import Console

from experiments.record import cache_folder, cached_runs

SILENT = Console(quiet=True)


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
        cached_runs(tmp_path, runs, make, console=SILENT)
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]
    made.append("interrupted")
    results = cached_runs(tmp_path, runs, make, console=SILENT)
    assert made == ["a", "interrupted", "b"]
    assert results == {name: {"name": name, "curve": [1.5, 2.5]} for name in "ab"}


def test_cached_runs_makes_a_run_with_other_settings_anew(tmp_path):
    def make(name, progress):
        return {"count": len(list(tmp_path.iterdir()))}

    first = cached_runs(tmp_path, {"a": {"epochs": 1}}, make, console=SILENT)
    other = cached_runs(tmp_path, {"a": {"epochs": 2}}, make, console=SILENT)
    again = cached_runs(tmp_path, {"a": {"epochs": 1}}, make, console=SILENT)
    assert (first, other, again) == ({"a": {"count": 0}}, {"a": {"count": 1}}, {"a": {"count": 0}})
    assert {json.loads(path.read_text())["settings"]["epochs"] for path in tmp_path.iterdir()} == {1, 2}
