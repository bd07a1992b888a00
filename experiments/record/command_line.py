"""What the command lines of all experiments have in common."""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

#: Folder of the records that belong to the documentation.
RESULTS = Path("docs/results")

#: Folder of smoke runs, which must never replace those.
QUICK_RESULTS = Path("build/quick-results")


def experiment_parser(name: str, description: str) -> argparse.ArgumentParser:
    """A parser with the options of all experiments, ``--quick`` and ``--out``.

    Args:
        name: Name of the experiment's package.
        description: First lines of the help.
    """
    parser = argparse.ArgumentParser(prog=f"python -m experiments.{name}", description=description)
    parser.add_argument("--quick", action="store_true", help="Smoke run: do everything once, on a small scale.")
    parser.add_argument(
        "--out", type=Path, help=f"Folder for the page (default: {RESULTS}; with --quick {QUICK_RESULTS})."
    )
    return parser


def module_command(module: str, argv: Sequence[str], *, seeds: Sequence[int] = ()) -> str:
    """The command that runs ``module`` with these arguments, as typed in a shell.

    Args:
        module: The module.
        argv: Its arguments.
        seeds: All seeds of the record; where some were added with ``--add``, the command is that of all of them.
    """
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seeds", nargs="+")
    parser.add_argument("--add", action="store_true")
    known, rest = parser.parse_known_args(argv)
    words = [*rest, "--seeds", *map(str, seeds)] if known.add else argv
    return shlex.join(["python", "-m", module, *words])


def result_folder(out: Path | None, *, quick: bool) -> Path:
    """The folder an experiment writes to: the one asked for, else the documentation or (quick) a scratch folder.

    Args:
        out: The folder given by the user, None if there is none.
        quick: Whether it is a smoke run.
    """
    if out is not None:
        return out
    return QUICK_RESULTS if quick else RESULTS
