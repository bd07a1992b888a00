"""What the command lines of the experiments share."""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

#: Where the records that belong to the documentation are.
RESULTS = Path("docs/results")

#: Where smoke runs go, so that they never replace those.
QUICK_RESULTS = Path("build/quick-results")


def experiment_parser(description: str) -> argparse.ArgumentParser:
    """The command line that experiments share: ``--quick`` and ``--out``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="Smoke run: everything once, small, in under a minute.")
    parser.add_argument("--out", type=Path, help=f"Default: {RESULTS}; with --quick {QUICK_RESULTS}.")
    return parser


def module_command(module: str, argv: Sequence[str]) -> str:
    """The command that runs ``module`` with these arguments, as typed in a shell."""
    return shlex.join(["python", "-m", module, *argv])


def result_folder(out: Path | None, *, quick: bool) -> Path:
    """Where an experiment writes: the folder that was asked for, else the documentation, else (quick) a scratch folder.

    Args:
        out: The folder given by the user, None if there is none.
        quick: Whether it is a smoke run.
    """
    if out is not None:
        return out
    return QUICK_RESULTS if quick else RESULTS
