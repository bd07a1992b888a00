"""The command line: what it shows and refuses, in one line, and what it does without the packages
of extras."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from nnunet_dro import __version__
from nnunet_dro import progress_bar as module
from nnunet_dro.cli import app
from nnunet_dro.commands.shared import stop_if_unmet, takes
from nnunet_dro.commands.usage import Commands, CommandWithPanels, stop, with_flags
from nnunet_dro.progress_bar import progress_bar
from tests.commands import done, refused, run

PROGRAM = Path(sys.executable).parent / "nnunet-dro"

#: The command where some packages cannot be imported.
WITHOUT = """
import sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Finder())
sys.argv = ["nnunet-dro", *{arguments!r}]
{then}
"""

EXTRA = ("filelock", "optuna", "plotly", "sqlalchemy")


def test_without_words_it_shows_what_one_does_in_the_order_of_a_project():
    result = done(run())
    steps = [
        result.stdout.index(step)
        for step in ("doctor", "nnUNetv2_train", "evaluate ", "compare ", "share ")
    ]

    assert steps == sorted(steps)

    result = done(run("trainers", "--check", "nnUNetTrainerDRO_beta10"))
    assert "beta10 (x = 10): Draws a case" in result.stdout

    refused(run("trainers", "--check", "nnUNetTrainerDR0"))
    folder = Path(run("trainers", "--path").stdout.strip())

    assert [path.name for path in folder.glob("*.py")] == ["nnUNetTrainer_nnunet_dro.py"]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("evalute",), ["'evalute'", "Did you mean 'evaluate'?", "`nnunet-dro --help`"]),
        (("--bogus",), ["--bogus", "--help`"]),
        (("evaluate",), ["--output", "evaluate --help`"]),
        (("evaluate", "a", "b", "-o", "c", "--metric", "x"), ["--metric", "--metrics"]),
        (("evaluate", "a", "b", "-o", "c", "--strata", "x"), ["--by"]),
        (("evaluate", "a", "b", "-o", "c", "--stratum", "x"), ["--by"]),
        (("evaluate", "a", "b", "-o", "c", "--group", "x"), ["--by", "--patient"]),
        (("evaluate", "a", "b", "-o", "c", "--labels-file", "x"), ["--dataset-json"]),
        (("evaluate", "a", "b", "-o", "c", "--num_processes", "2"), ["--jobs"]),
        (("compare", "a=a", "b=b", "-o", "c", "--stratify", "x"), ["--by"]),
        (("splits", "1", "--by", "x"), ["--stratify"]),
        (("splits", "1", "--overwrite"), ["--force"]),
        (("splits", "1", "--stratum", "x"), ["--stratify"]),
        (("evaluate", "a", "b", "-o", "c", "--bootstrap", "many"), ["--bootstrap", "integer"]),
        (("evaluate", "a", "b", "-o"), ["-o"]),
        (("suspects",), ["fold_folder", "`nnunet-dro suspects --help`"]),
        (("demo", "--device", "tpu"), ["'tpu' is not one of 'cpu', 'cuda', 'mps'"]),
        (("demo", "--epochs", "ten"), ["'--epochs'"]),
        (("demo", "--seed", "-1"), ["'--seed'", "greater than or equal to 0"]),
        (
            ("tune", "7", "2d", "0", "--trainer", "DRO", "--sampler", "grid"),
            ["'grid' is not one of 'gp', 'tpe'"],
        ),
        (("rank", "a=r", "b=s", "-o", "out", "--scheme", "meen"), ["'meen' is not one of"]),
    ],
)
def test_an_error_of_usage_is_one_line(tmp_path, monkeypatch, words, parts):
    monkeypatch.chdir(tmp_path)
    assert "Value error" not in refused(run(*words), *parts)
    assert not list(tmp_path.iterdir())


def test_help_groups_the_commands_and_names_each_once():
    listed = re.findall(r"^(\w+):$|^  ([a-z]\w+) ", run("--help").stdout, flags=re.MULTILINE)
    assert [group for group, _ in listed if group] == [
        "Options",
        "Train",
        "Evaluate",
        "Claims",
        "Share",
    ]
    assert sorted(name for _, name in listed if name) == sorted(
        typer.main.get_command(app).commands
    )

    text = run("evaluate", "--help").stdout
    first = text[text.index("\nOptions:") : text.index("\nStrata:")]
    flags = ["--output", "--by", "--metrics", "--cases", "--overwrite", "--help"]

    assert re.findall(r"^  (?:-\w, )?(--\w+)", first, flags=re.MULTILINE) == flags


@pytest.mark.parametrize(
    ("command", "choices"),
    [
        *(
            (command, ())
            for command in ("compare", "report", "splits", "rank", "finetune", "protocol write")
        ),
        ("evaluate", ["undefined|one|brats", "error|worst"]),
        ("demo", ["cpu|cuda|mps"]),
        ("tune", ["cpu|cuda|mps", "gp|tpe"]),
        ("suspects", ["loss|weight|dice"]),
    ],
)
def test_help_shows_every_flag_whole_at_80_columns(monkeypatch, command, choices):
    monkeypatch.setenv("COLUMNS", "80")
    group = typer.main.get_command(app)
    for word in command.split():
        group = group.commands[word]
    text = run(*command.split(), "--help").stdout

    flags = [flag for parameter in group.params for flag in parameter.opts if flag.startswith("-")]

    assert [flag for flag in flags if not re.search(rf"(?<![\w-]){flag}(?![\w-])", text)] == []
    assert max(map(len, text.splitlines())) <= 80
    assert all(choice in text for choice in choices)


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("evaluate", "r", "p", "-o", "out", "--metrics", "dise"), "--metrics"),
        (("evaluate", "r", "p", "-o", "file"), "--output"),
        (("evaluate", "r", "p", "-o", "out", "--nsd-tolerance-mm", "0"), "--nsd-tolerance-mm"),
        (("protocol", "write", "file.toml", "--margin", "-1"), "--margin"),
    ],
)
def test_an_error_names_the_flag_that_was_typed(tmp_path, monkeypatch, words, flag):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()

    assert refused(run(*words)).startswith(f"nnunet-dro: `{flag}` must ")


def test_no_name_in_an_error_or_a_verdict_moves_the_cursor(capsys):
    outcome = {"passed": False, "verdict": "not met", "line": "a\n\x1b[2Jb"}
    with pytest.raises(typer.Exit):
        stop_if_unmet([outcome])
    with pytest.raises(typer.Exit):
        stop("c\x1b[2Jd", 2)

    verdict, error = capsys.readouterr().err.splitlines()
    assert verdict == "nnunet-dro: requirement not met: a��[2Jb"
    assert error == "nnunet-dro: c�[2Jd"


def test_an_error_leaves_columns_and_arguments_their_names():
    commands = typer.main.get_command(app).commands
    message = "`from` must be a model of `fold`, and column `from` be a number."

    assert with_flags(message, commands["finetune"]) == message.replace("`from`", "`--from`", 1)
    assert with_flags(message, commands["evaluate"]) == message


@pytest.mark.parametrize(
    ("times", "calls", "lines"),
    [
        (
            [0, 10, 31, 40, 62, 120],
            [(n, 100) for n in (1, 10, 20, 30, 100)],
            ["Scoring: 10 of 100, about 4 min left", "Scoring: 30 of 100, about 2 min left"],
        ),
        (  # what comes before the first item, such as loading a model, is over
            [0, 120, 125, 160],
            [(n, 11) for n in (1, 2, 3)],
            ["Scoring: 2 of 11, about 1 min left", "Scoring: 3 of 11, about 3 min left"],
        ),
        (  # what an earlier run finished takes no time
            [0, 10, 45],
            [(n, 100) for n in (50, 51)],
            ["Scoring: 51 of 100, about 29 min left"],
        ),
        (  # each part of the work is estimated anew
            [0, 100, 140, 200, 231],
            [
                (80, 100, "epochs"),
                (90, 100, "epochs"),
                (0, 4, "validation cases"),
                (1, 4, "validation cases"),
            ],
            ["epochs: 90 of 100, about 1 min left", "validation cases: 1 of 4, about 2 min left"],
        ),
    ],
)
def test_progress_is_a_line_now_and_then_where_there_is_no_terminal(
    capfd, monkeypatch, times, calls, lines
):
    now = map(float, times)
    monkeypatch.setattr(module.time, "monotonic", lambda: next(now))

    with progress_bar("Scoring") as progress:
        for call in calls:
            progress(*call)

    assert capfd.readouterr().err.splitlines() == lines


@pytest.mark.parametrize(
    "words", ["evaluate labelsTs predictions --by c", "rank --evaluate labelsTs --by c"]
)
def test_the_shell_offers_columns_of_the_case_table_of_the_dataset(tmp_path, words):
    (tmp_path / "labelsTs").mkdir()
    (tmp_path / "cases.csv").write_text("case,centre,age\na,A,1\n")
    environment = os.environ | {
        "_NNUNET_DRO_COMPLETE": "complete_bash",
        "COMP_WORDS": f"nnunet-dro {words}",
        "COMP_CWORD": str(len(words.split())),
    }

    result = subprocess.run(
        [PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True
    )

    assert result.stdout.split() == ["centre"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a command."""

    size: Annotated[int, typer.Option(help="The size.")] = 3
    names: Annotated[list[str], typer.Argument(help="The names.")]
    parts: Annotated[list[str] | None, typer.Option("--part")] = None

    def __post_init__(self):
        if self.size < 1:
            raise ValueError(f"`size` must be at least 1, got {self.size}. Give --size.")


def test_a_command_takes_the_fields_of_a_dataclass():
    seen = []
    program = typer.Typer(cls=Commands)
    program.command(cls=CommandWithPanels)(takes(Options)(seen.append))

    program.callback()(lambda: None)

    assert CliRunner().invoke(program, ["append", "a", "b", "--part", "x"]).exit_code == 0
    assert CliRunner().invoke(program, ["append", "a", "--size", "5"]).exit_code == 0
    assert seen == [Options(names=["a", "b"], parts=["x"]), Options(names=["a"], size=5)]

    wrong = CliRunner().invoke(program, ["append", "a", "--size", "0"])
    refused(wrong, "`--size` must be at least 1, got 0. Give --size.")


def test_an_empty_file_is_no_interruption():
    program = typer.Typer(cls=Commands)
    program.command("read")(lambda: np.load(BytesIO()))
    program.callback()(lambda: None)

    refused(CliRunner().invoke(program, ["read"]), "No data left in file")


def test_progress_on_a_terminal_shows_what_is_going_on():
    console = Console(force_terminal=True, width=100, file=StringIO())
    with progress_bar("Tuning", console=console) as progress:
        progress(2, 4, "trial 0 nnUNetTrainerIW_[site], epochs")
        progress(1, 3, "trial 0 nnUNetTrainerIW_[site], validation cases")

    shown = console.file.getvalue()

    assert "trial 0 nnUNetTrainerIW_[site], validation cases" in shown
    assert "1/3" in shown


# Where packages are absent


def without(blocked, *arguments, then="from nnunet_dro.cli import main; main()"):
    code = WITHOUT.format(blocked=blocked, arguments=list(map(str, arguments)), then=then)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.parametrize("package", EXTRA)
def test_tune_without_its_extra_says_in_one_line_what_to_install(package):
    result = without(
        (package,), "tune", "7", "2d", "0", "--trainer", "DRO", "--option", "beta:1:10"
    )
    assert (result.returncode, result.stdout) == (2, "")

    (line,) = result.stderr.strip().splitlines()
    assert f"needs {package}" in line
    assert 'pip install "nnunet-dro[tune]", or in a clone pip install ".[tune]".' in line


@pytest.mark.parametrize(
    "arguments", [("--help",), ("--version",), ("tune", "--help"), ("trainers", "--path")]
)
def test_other_commands_and_help_need_no_extra(arguments):
    result = without(EXTRA, *arguments)
    assert result.returncode == 0, result.stderr
    if "--version" in arguments:
        assert result.stdout == f"nnunet-dro {__version__}\n"
    if "tune" in arguments:
        assert 'pip install "nnunet-dro[tune]", or in a clone pip install ".[tune]"' in " ".join(
            result.stdout.split()
        )


def test_everything_but_tune_is_imported_without_its_extra():
    rooms = (
        "demo",
        "inspection.suspects",
        "tuning",
        "evaluation.report",
        "trainers.registry",
        "trainers.overview",
    )
    imports = ", ".join(f"nnunet_dro.{room}" for room in rooms)

    # torch brings filelock. To look for garbage takes a third of the time.
    result = without(
        ("optuna", "plotly", "sqlalchemy"),
        then=f"import gc, os; gc.disable(); import {imports}; os._exit(0)",
    )

    assert result.returncode == 0, result.stderr
