import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).parent / "nnunet-dro"


def nnunet_dro(*arguments, cwd=None):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, cwd=cwd)


def test_help_names_the_commands():
    result = nnunet_dro("--help")
    assert result.returncode == 0
    assert "trainers" in result.stdout
    assert "demo" in result.stdout


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
    result = nnunet_dro("demo", "--data", data, "--out", tmp_path / "out")
    assert result.returncode == 2
    assert not result.stdout
    assert len(result.stderr.strip().splitlines()) == 1
    assert message in result.stderr
    assert not (tmp_path / "out").exists(), "nothing half written"
