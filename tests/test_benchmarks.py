"""Benchmarks run; what they measure is not asserted, but the check for GPUs says whether what it
checks holds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
COMMANDS = {
    "sampler.py": ("--quick",),
    "draws_of_rules.py": ("--quick",),
    "train_step.py": ("--quick", "--iterations", "2"),
    "ranking.py": ("--quick",),
    "scale.py": ("--quick",),
    "epoch_end.py": ("--cases", "20", "--epochs", "3", "--measured", "2"),
    "gpu_check.py": ("race", "parity", "amp", "--device", "cpu"),
}


@pytest.mark.slow
@pytest.mark.parametrize("script", COMMANDS)
def test_it_runs_and_writes_its_numbers(tmp_path, script):
    out = tmp_path / "numbers.json"
    command = [sys.executable, REPOSITORY / "benchmarks" / script, *COMMANDS[script], "--out", out]

    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    assert result.returncode == 0, result.stderr[-2000:]
    assert json.loads(out.read_text())
