"""What is not slow with other versions of Python and of the main packages, and releases.

    nox                      every session of the tests; a Python that is not installed is skipped
    nox -s newest-3.13 -s "older(nnunetv2-2.6)"
    nox -s dist              what a release consists of

What passed when is in docs/tested.md.
"""

import shutil
from pathlib import Path

import nox

nox.options.sessions = ["newest", "older"]
nox.options.error_on_missing_interpreters = False

#: What is pinned beside the newest of everything else, one package at a time. The newest pandas for
#: Python 3.10 is 2.3.
OLDER = {
    "nnunetv2-2.6": ["nnunetv2==2.6.*"],
    "nnunetv2-2.7": ["nnunetv2==2.7.*"],
    "numpy-1": ["numpy==1.26.*"],
}


@nox.session(python=["3.10", "3.11", "3.12", "3.13"])
def newest(session: nox.Session) -> None:
    """Run what is not slow with the newest of everything that there is for a version of Python."""
    _fast_tests(session)


@nox.session(python="3.12")
@nox.parametrize("package", list(OLDER), ids=list(OLDER))
def older(session: nox.Session, package: str) -> None:
    """Run what is not slow with an older version of one package."""
    _fast_tests(session, *OLDER[package])


def _fast_tests(session: nox.Session, *pins: str) -> None:
    session.install(".[dev]", *pins)
    packages = ("nnunetv2", "torch", "numpy", "pandas", "scipy", "SimpleITK")
    print_versions = (
        "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    )
    session.run("python", "-c", print_versions, *packages)
    options = ("-q", "-m", "not slow", "-n", "2", "--dist", "loadfile")
    session.run("python", "-m", "pytest", *options, *session.posargs, env={"OMP_NUM_THREADS": "1"})


@nox.session
def dist(session: nox.Session) -> None:
    """Build sdist and wheel into ``dist``; nnU-Net must find the installed trainers."""
    shutil.rmtree("dist", ignore_errors=True)
    direct = Path(session.create_tmp()) / "direct"
    shutil.rmtree(direct, ignore_errors=True)
    session.install("build", "twine")
    # The first wheel is built from the sdist, the second from this folder: the sdist must lack
    # nothing.
    session.run("python", "-m", "build", "--outdir", "dist")
    session.run("python", "-m", "build", "--wheel", "--outdir", str(direct))
    (wheel,) = Path("dist").absolute().glob("*.whl")
    if wheel.read_bytes() != (direct / wheel.name).read_bytes():
        session.error("The wheel of the sdist is another than the wheel of this folder.")
    session.run("python", "-m", "twine", "check", "--strict", *map(str, Path("dist").iterdir()))
    session.install("nnunetv2")
    before = _packages(session)
    session.install(str(wheel))
    if changed := before - _packages(session):
        session.error(
            f"The installation changed what nnU-Net had brought: {', '.join(sorted(changed))}."
        )
    session.chdir(session.create_tmp())
    find = (
        "from nnunetv2.utilities.find_objects import recursive_find_trainer_class_by_name as find"
    )
    session.run("python", "-c", f"{find}; print(find('nnUNetTrainerDRO_beta10_20epochs'))")
    session.run("nnunet-dro", "trainers")


def _packages(session: nox.Session) -> set[str]:
    return set(
        str(session.run("python", "-m", "pip", "list", "--format", "freeze", silent=True)).split()
    )
