"""The examples in docstrings say what happens."""

import doctest
import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "nnunet_dro"
WITH_EXAMPLES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    results = doctest.testmod(importlib.import_module(module))

    assert results.attempted > 0
    assert results.failed == 0


def test_what_users_call_has_an_example():
    of_evaluation = ("evaluating.evaluation", "comparing.comparison", "stratifying.splits")
    called = [*(f"evaluation.{name}" for name in of_evaluation), "sampling.divergences"]

    assert {f"nnunet_dro.{name}" for name in called} <= set(WITH_EXAMPLES)
