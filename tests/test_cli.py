import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nnunet_dro.cli import app

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
TUNE = ("tune", "7", "2d", "0", "--trainer", "DRO", "--option", "beta:1:10")


def nnunet_dro(*arguments, cwd=None):
    environment = {**os.environ, "COLUMNS": "160"}
    command = [PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)


def without(blocked, *arguments, then="from nnunet_dro.cli import main; main()"):
    code = WITHOUT.format(blocked=blocked, arguments=list(map(str, arguments)), then=then)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_version_is_the_packages():
    from nnunet_dro import __version__

    assert nnunet_dro("--version").stdout.strip() == f"nnunet-dro {__version__}"


def test_trainers_path_holds_the_module_for_nnunet():
    folder = Path(nnunet_dro("trainers", "--path").stdout.strip())
    assert [path.name for path in folder.glob("*.py")] == ["nnUNetTrainer_nnunet_dro.py"]


@pytest.mark.parametrize(
    ("cases_csv", "message"),
    [
        (None, "cases.csv"),
        ("name,centre\na,A\nb,B\n", "`case`"),
        ("case,centre\na,A\nnobody,B\n", "nobody"),
        ("case,scanner\na,A\nb,B\n", "centre"),
    ],
)
def test_demo_refuses_a_bad_case_table_in_one_line(tmp_path, cases_csv, message):
    data = tmp_path / "Dataset001_Mine"
    for folder, suffix in (("imagesTr", "_0000"), ("labelsTr", "")):
        (data / folder).mkdir(parents=True)
        for case in "ab":
            (data / folder / f"{case}{suffix}.nii.gz").touch()
    (data / "dataset.json").write_text(
        '{"channel_names": {"0": "MRI"}, "labels": {"background": 0, "a": 1}, "numTraining": 2, '
        '"file_ending": ".nii.gz"}'
    )
    if cases_csv is not None:
        (data / "cases.csv").write_text(cases_csv)
    result = CliRunner().invoke(app, ["demo", "--data", str(data), "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert not result.stdout
    assert len(result.stderr.strip().splitlines()) == 1
    assert message in result.stderr
    assert not (tmp_path / "out").exists(), "nothing half written"


@pytest.mark.parametrize("package", EXTRA)
def test_tune_without_its_extra_says_in_one_line_what_to_install(package):
    result = without((package,), *TUNE)

    assert result.returncode == 2
    assert not result.stdout
    assert len(result.stderr.strip().splitlines()) == 1
    assert f"needs {package}" in result.stderr
    assert 'pip install "nnunet-dro[tune]", or in a clone pip install ".[tune]".' in result.stderr


def test_help_of_tune_names_its_extra():
    result = without(EXTRA, "tune", "--help")
    assert 'pip install "nnunet-dro[tune]"' in " ".join(result.stdout.split())
    assert 'in a clone pip install ".[tune]"' in " ".join(result.stdout.split())


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("tune", "--help"), ("trainers", "--path")])
def test_other_commands_and_help_need_no_extra(arguments):
    result = without(EXTRA, *arguments)

    assert result.returncode == 0, result.stderr


def test_everything_but_tune_is_imported_without_its_extra():
    rooms = ("demo", "suspects", "tuning", "evaluation.report", "trainers.registry", "trainers.overview")
    imports = ", ".join(f"nnunet_dro.{room}" for room in rooms)

    # torch brings filelock.
    result = without(("optuna", "plotly", "sqlalchemy"), then=f"import {imports}")

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("command", "choices"),
    [("demo", ["cpu|cuda|mps"]), ("tune", ["cpu|cuda|mps", "gp|tpe"]), ("suspects", ["loss|weight|dice"])],
)
def test_help_shows_the_choices(command, choices):
    result = nnunet_dro(command, "--help")

    for choice in choices:
        assert choice in result.stdout
