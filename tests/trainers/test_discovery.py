"""How nnU-Net finds us: the wheel installed beside a copy of nnU-Net, in a fresh virtual
environment."""

import json
import os
import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path

import nnunetv2
import pytest

REPOSITORY = Path(__file__).parents[2]
FIND = """
import sys
try:
    from nnunetv2.utilities.find_objects import recursive_find_trainer_class_by_name as find
except ImportError:  # nnU-Net 2.6
    import nnunetv2
    from nnunetv2.utilities.find_class_by_name import recursive_find_python_class

    def find(name):
        folder = nnunetv2.__path__[0] + "/training/nnUNetTrainer"
        cls = recursive_find_python_class(folder, name, "nnunetv2.training.nnUNetTrainer")
        if cls is None:
            raise RuntimeError(f"Could not find requested nnunet trainer {name}")
        return cls
for name in sys.argv[1:]:
    cls = find(name)
    print(cls.__module__, cls.__name__, "timm" in sys.modules)
"""
COMMAND = """
import runpy
runpy.run_module("nnunet_dro.cli", run_name="__main__", alter_sys=True)
"""
#: Runs code in processes of its own that have imported what nnU-Net needs from others, which takes
#: most of the time, as would looking for garbage among it at the end of each; nnU-Net and this
#: package are imported by each.
FORK = """
import gc, importlib, json, os, sys
import blosc2, nibabel, seaborn, SimpleITK, skimage.io, sklearn.model_selection
import torch._dynamo, torch.distributed.fsdp

gc.freeze()
for line in sys.stdin:
    code, words, variables, files = json.loads(line)
    child = os.fork()
    if child == 0:
        for number, file in zip((1, 2), files):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.environ.update(variables)
        sys.argv = ["-c", *words]
        importlib.invalidate_caches()
        exec(compile(code, "code", "exec"), {"__name__": "__main__"})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
HIDE_TIMM = "import sys; sys.modules['timm'] = None  # importing it raises ImportError\n"


class Environment:
    """A virtual environment with its own nnU-Net; everything else, pip too, comes from the one the
    tests run in."""

    def __init__(self, root: Path) -> None:
        venv.create(root, symlinks=True)
        self.root = root
        self.python = root / "bin" / "python"
        self.site = Path(
            self.run("-c", "import site; print(site.getsitepackages()[0])").stdout.strip()
        )
        self.nnunet = self.site / "nnunetv2"
        shutil.copytree(
            Path(nnunetv2.__file__).parent,
            self.nnunet,
            ignore=shutil.ignore_patterns("*nnunet_dro*"),
        )
        (self.site / "zz_tests.pth").write_text(
            f"import site; site.addsitedir({site.getsitepackages()[0]!r})\n"
        )

    def start(self, *arguments: object, **pipes: object) -> subprocess.Popen:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        settings = {"env": environment | {"PYTHONWARNINGS": "ignore"}, "cwd": self.root, **pipes}
        return subprocess.Popen([self.python, *map(str, arguments)], text=True, **settings)

    def run(self, *arguments: object, check: bool = True) -> subprocess.CompletedProcess:
        """Run Python to its end."""
        with self.start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            printed = process.communicate()
        return checked(arguments, process.returncode, printed, check=check)

    def run_forked(
        self, code: str, *words: str, check: bool = True, **variables: str
    ) -> subprocess.CompletedProcess:
        """Run ``python -c code`` to its end, where the packages of others are imported already."""
        files = [self.root / name for name in ("stdout", "stderr")]
        request = [code, words, variables, [*map(str, files)]]
        self.forks.stdin.write(json.dumps(request) + "\n")
        self.forks.stdin.flush()
        exit_code = int(self.forks.stdout.readline())
        return checked(words, exit_code, [file.read_text() for file in files], check=check)

    def command(self, *words: str, **settings: object) -> subprocess.CompletedProcess:
        """Run the command of this package."""
        return self.run_forked(COMMAND, *words, **settings)

    def find(
        self, *names: str, before: str = "", check: bool = True, **variables: str
    ) -> subprocess.CompletedProcess:
        """Find trainers one after the other; a line each has the module, the name, and whether timm
        is imported."""
        return self.run_forked(before + FIND, *names, check=check, **variables)

    def nnunet_files(self) -> set[Path]:
        files = (
            path for path in self.nnunet.rglob("*") if path.is_file() and path.suffix != ".pyc"
        )
        return {path.relative_to(self.nnunet) for path in files}


def checked(words, code, printed, *, check):
    """The result of a process, which may have failed only if that is not checked."""
    result = subprocess.CompletedProcess(words, code, *printed)
    if check and code != 0:
        raise AssertionError(f"{words} failed:\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}")
    return result


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """With the wheel of this repository installed."""
    environment = Environment(tmp_path_factory.mktemp("environment"))
    wheels = tmp_path_factory.mktemp("wheels")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", wheels]
    subprocess.run(build, check=True, cwd=REPOSITORY, capture_output=True)
    environment.before = environment.nnunet_files()
    (environment.wheel,) = wheels.glob("*.whl")
    environment.run(
        "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", environment.wheel
    )
    with environment.start(
        "-c", FORK, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as environment.forks:
        yield environment


def test_nnunet_finds_the_trainers_without_its_other_packages(environment):
    names = ["nnUNetTrainerHWS", "nnUNetTrainerHWS_beta0.5_noIS_2epochs"]
    for before, is_there in ((HIDE_TIMM, "True"), ("", "False")):
        lines = [
            line.split()[1:] for line in environment.find(*names, before=before).stdout.splitlines()
        ]
        assert lines == [[name, is_there] for name in names], (
            "hidden, it is there as None; else nobody imports it"
        )


def test_other_trainers_are_found_as_before(environment):
    found = environment.find(
        "nnUNetTrainer", "nnUNetTrainerDA5", "nnUNetTrainerNobody", check=False
    )
    plain, variant = found.stdout.splitlines()

    assert plain.startswith("nnunetv2.training.nnUNetTrainer.nnUNetTrainer ")
    assert ".variants." in variant
    assert "Could not find requested nnunet trainer nnUNetTrainerNobody" in found.stderr
    assert "nnunet_dro" not in environment.run(
        "-c",
        "import sys, nnunetv2.training.nnUNetTrainer.nnUNetTrainer_nnunet_dro; print(*sys.modules)",
    ).stdout.replace("nnUNetTrainer_nnunet_dro", ""), (
        "the module imports nothing until it is asked for one of ours"
    )


def test_a_misspelt_option_reaches_the_user(environment):
    result = environment.find("nnUNetTrainerHWS_bta10", check=False)
    assert result.returncode != 0
    assert result.stderr.splitlines()[-1].startswith(
        "ValueError: `bta10` in `nnUNetTrainerHWS_bta10` is not an option"
    )


def test_a_broken_package_does_not_take_nnunet_down(environment):
    hide = "import sys; sys.modules['nnunet_dro'] = None\n"
    assert ".variants." in environment.find("nnUNetTrainerDA5", before=hide).stdout


def test_the_command_says_where_nnunet_finds_them(environment):
    module = environment.nnunet / "training/nnUNetTrainer/nnUNetTrainer_nnunet_dro.py"
    result = environment.command("trainers")

    assert f"nnU-Net finds them through {module}" in result.stdout
    assert "after: export nnUNet_extTrainer=$(nnunet-dro trainers --path)" in result.stdout
    for expected in (
        "nnUNetTrainerHWS",
        "beta<x>",
        "noIS",
        "clip<lo>to<hi>",
        "momentum<m>",
        "plainSGD",
        "<n>epochs",
    ):
        assert expected in result.stdout

    folder = Path(environment.command("trainers", "--path").stdout.strip())
    assert (folder / module.name).exists()

    hidden = module.with_suffix(".hidden")
    module.rename(hidden)
    try:
        missing = environment.command("trainers", check=False)
        assert missing.returncode == 1
        assert f"{module} is missing" in missing.stdout
        assert "export nnUNet_extTrainer=$(nnunet-dro trainers --path)" in missing.stdout
        exported = environment.command("trainers", check=False, nnUNet_extTrainer=str(folder))
        if not (environment.nnunet / "utilities/find_objects.py").exists():
            assert f"{module} is missing" in exported.stdout, (
                "nnU-Net before 2.8 does not read the variable"
            )
            return
        assert str(folder) in exported.stdout
        assert "after: export" not in exported.stdout, "it is done"
        found = environment.find("nnUNetTrainerHWS_beta10", nnUNet_extTrainer=str(folder))
        assert "nnUNetTrainerHWS_beta10" in found.stdout.splitlines()[-1]
    finally:
        hidden.rename(module)


def test_the_command_helps_when_our_folder_hides_an_editable_nnunet(environment):
    init = environment.nnunet / "__init__.py"
    hidden = environment.nnunet / "__init__.hidden"
    init.rename(hidden)

    try:
        result = environment.run("-S", "-c", _DISCOVER, environment.site, check=False)
    finally:
        hidden.rename(init)

    assert "Remove that folder, then run: export nnUNet_extTrainer" in result.stdout, result.stderr
    assert str(environment.nnunet) in result.stdout


_DISCOVER = """
import sys
sys.path = [p for p in sys.path if "site-packages" not in p] + [sys.argv[1]]
from nnunet_dro.trainers.installation import discover
print(discover().cure)
"""


def test_uninstalling_leaves_nnunet_as_it_was(environment):
    """Last in this file: the environment is of no use afterwards."""
    added = environment.nnunet_files() - environment.before
    assert added == {Path("training/nnUNetTrainer/nnUNetTrainer_nnunet_dro.py")}

    environment.run("-m", "pip", "uninstall", "--quiet", "--yes", "nnunet-dro")
    assert environment.nnunet_files() == environment.before
    assert environment.find("nnUNetTrainer").returncode == 0
