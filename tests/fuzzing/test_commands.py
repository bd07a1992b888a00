"""Damaged input ends every command well, or in one clear line, and nothing is left behind.

The damage is drawn at random from a fixed seed, a few times per command. With NNUNET_DRO_FUZZ=300
in the environment it is drawn 300 times, which takes minutes.
"""

import os
import shutil

import numpy as np
import pytest

from tests import commands
from tests.fuzzing.mutations import damage, files_below
from tests.fuzzing.workspaces import WORKSPACES

#: Numpy leaves damaged archives open, which nnU-Net reads with it.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

N_DRAWS = int(os.environ.get("NNUNET_DRO_FUZZ", "3"))

#: What a command keeps for another run, by intention: the cases that `doctor` has measured, and the
#: whole evaluation of the first submission that `rank` has scored.
KEPT = {"out", "out/doctor.csv", "out/doctor.json", "kept", "kept/alpha"}
KEPT |= {
    f"kept/alpha/{name}" for name in ("scored.json", "scores.csv", "strata.csv", "summary.json")
}

#: What `doctor` says before it begins to read cases.
ANNOUNCED = ("Looking at ", "Measuring ")

#: Commands that train afterwards, which is not what is tried here.
TRAINING = ("finetune", "tune")


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """Command to its undamaged folder and the words to try on it, made when first asked for."""
    made = {}

    def of(command):
        if command not in made:
            folder = tmp_path_factory.mktemp(command)
            made[command] = (folder, WORKSPACES[command](folder))
        return made[command]

    return of


@pytest.fixture
def fuzzed(bases, tmp_path, monkeypatch):
    """Runs a command on a damaged copy of its folder, and says what is wrong with how it ended."""

    def run(command, seed, *, n_damages=None):
        base, calls = bases(command)
        rng = np.random.default_rng([seed, len(command)])
        root = tmp_path / f"{command}_{seed}"
        shutil.copytree(base, root)
        monkeypatch.chdir(root)
        for name in ("raw", "preprocessed", "results"):
            monkeypatch.setenv(f"nnUNet_{name}", str(root / name))
        words = calls[rng.integers(len(calls))]
        damages = []
        for _ in range(int(rng.integers(1, 3)) if n_damages is None else n_damages):
            if not (files := files_below(root)):
                break
            path = files[rng.integers(len(files))]
            damages.append(f"{path.relative_to(root)}: {damage(path, rng)}")
        before = listed(root)
        result = commands.run(*words)
        monkeypatch.chdir(tmp_path)
        wrong = what_is_wrong(result, before, listed(root))
        shutil.rmtree(root)
        said = (
            f"{command}, draw {seed}: {' '.join(words)}\n  damaged: {'; '.join(damages)}\n  {wrong}"
        )
        return result, wrong and said

    monkeypatch.setattr(
        "nnunet_dro.nnunet.training.run_command", stop_before_training, raising=False
    )
    return run


def stop_before_training(*arguments, **options):
    raise KeyboardInterrupt


def listed(root):
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def what_is_wrong(result, before, after):
    """An empty text if the command succeeded, or said in one line what is wrong and left nothing."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        import traceback

        frames = traceback.extract_tb(result.exception.__traceback__)
        place = [
            f"{f.filename.split('/')[-1]}:{f.lineno}" for f in frames if "nnunet_dro" in f.filename
        ][-1:]
        return f"{type(result.exception).__name__}: {str(result.exception)[:300]} at {place}"
    if result.exit_code in (0, 3, 130):
        left = [name for name in after - before if ".partial" in name]
        return f"left {left}" if left else ""
    lines = [line for line in result.stderr.splitlines() if not line.startswith(ANNOUNCED)]
    if result.exit_code != 2:
        return f"exit code {result.exit_code}: {lines[-3:]}"
    if len(lines) != 1 or not lines[0].startswith("nnunet-dro: "):
        return f"{len(lines)} lines: {lines[:3]}"
    if len(lines[0]) > 8000:
        return f"a line of {len(lines[0])} characters: {lines[0][:200]}"
    return (
        f"left behind: {sorted(after - before)}"
        if after - before and not after - before <= KEPT
        else ""
    )


@pytest.mark.parametrize("command", WORKSPACES)
def test_undamaged_input_is_used(fuzzed, command):
    result, wrong = fuzzed(command, 0, n_damages=0)
    assert result.exit_code == (130 if command in TRAINING else 0), result.output
    assert not wrong


@pytest.mark.parametrize("command", WORKSPACES)
def test_damaged_input_ends_well_or_in_one_line(fuzzed, command):
    wrong = [found for seed in range(N_DRAWS) if (found := fuzzed(command, seed)[1])]
    assert not wrong, f"{len(wrong)} of {N_DRAWS}:\n" + "\n".join(wrong)
