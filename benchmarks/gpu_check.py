"""Checks on a GPU what the tests can only check without one.

Says PASS or FAIL, and writes the numbers to a file.

    python benchmarks/gpu_check.py [SECTION ...] [--device cpu] [--minutes 30] [--out FILE]

Sections (all of them by default):

- race: the losses that are stored are those of the batch that was trained on;
- parity: nnUNetTrainerDRO_beta0 trains the weights of nnUNetTrainer;
- amp: the losses of the cases are right in mixed precision, and an overflow skips the step but not
the losses; - sync: a step waits for the GPU as often as nnUNetTrainer's; - compile: nothing is
compiled anew after the first iterations, and the compiled loss is that of the eager one; - memory:
the peak memory of a step, each trainer alone on the GPU; - speed: the time of a step relative to
nnUNetTrainer's, in turns (`benchmarks/train_step.py`); - train: nnU-Net's own commands train,
continue a training that was stopped, and predict, for six trainers.

A run of some of the sections keeps the others' results in the file. With ``--device cpu`` the
networks are small; `sync`, `compile` and `speed` need a GPU, and `memory` is counted on tensors
without data. The exit code is 1 if a check failed.
"""

import argparse
import json
import platform
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gpu_check_commands
import gpu_check_costs
import gpu_check_steps
import torch
from random_trainers import as_nnunet_sets_cudnn, forget_everything_compiled

RESULTS = Path(__file__).parent / "results"


@dataclass
class Findings:
    """Collects what the checks of one section found."""

    device: torch.device  # The device to check.
    end: float  # Moment after which no new part is begun, as `time.monotonic`.
    rows: list[dict[str, Any]] = field(default_factory=list)  # What was found, one entry per check.

    @property
    def is_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device.type == "cuda"

    def check(self, what: str, passed: bool, **numbers: Any) -> None:
        """Store and print a check."""
        self._add({"check": what, "passed": bool(passed), **numbers})

    def note(self, what: str, **numbers: Any) -> None:
        """Store and print numbers that are not judged."""
        self._add({"check": what, "passed": None, **numbers})

    def is_late(self, what: str) -> bool:
        """Whether there is no time left to begin something; it is noted then."""
        if time.monotonic() < self.end:
            return False
        self.note(what, skipped="no time left")
        return True

    def _add(self, row: dict[str, Any]) -> None:
        row = {name: _readable(value) for name, value in row.items()}
        self.rows.append(row)
        word = {True: "PASS", False: "FAIL", None: "    "}[row["passed"]]
        numbers = ", ".join(
            f"{name} {value}" for name, value in row.items() if name not in ("check", "passed")
        )
        sys.stdout.write(f"{word} {row['check']}: {numbers}\n")
        sys.stdout.flush()


def _readable(value: Any) -> Any:
    return (
        float(f"{float(value):.5g}")
        if isinstance(value, float) or hasattr(value, "dtype")
        else value
    )


SECTIONS: dict[str, Callable[[Findings], None]] = {
    "race": gpu_check_steps.race,
    "parity": gpu_check_steps.parity,
    "amp": gpu_check_steps.amp,
    "sync": gpu_check_costs.sync,
    "compile": gpu_check_costs.compile,
    "memory": gpu_check_costs.memory,
    "speed": gpu_check_costs.speed,
    "train": gpu_check_commands.train,
}
NEED_A_GPU = {"sync", "compile", "speed"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"Sections to run: {', '.join(SECTIONS)}."
    )
    parser.add_argument(
        "--device", default="cuda", choices=("cpu", "cuda"), help="Device to check."
    )
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="Time after which no new part is begun."
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="JSON file; without it, gpu.json or gpu-check-cpu.json in results/.",
    )
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.sections if name not in SECTIONS]:
        parser.error(f"SECTION must be one of {', '.join(SECTIONS)}, got {unknown[0]}.")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error(
            "PyTorch finds no GPU. Run the checks that make sense without one with --device cpu."
        )
    warnings.simplefilter("ignore")
    device = torch.device(arguments.device)
    out = arguments.out or RESULTS / (
        "gpu.json" if arguments.device == "cuda" else "gpu-check-cpu.json"
    )
    end = time.monotonic() + 60 * arguments.minutes
    wished = arguments.sections or list(SECTIONS)
    if skipped := [name for name in wished if name in NEED_A_GPU and arguments.device == "cpu"]:
        sys.stdout.write(f"Left out, because they need a GPU: {', '.join(skipped)}.\n")
    sections = {name: run(name, Findings(device, end)) for name in wished if name not in skipped}
    write(out, arguments.device, sections)
    failed = [row["check"] for rows in sections.values() for row in rows if row["passed"] is False]
    sys.stdout.write(f"FAILED: {', '.join(failed)}\n" if failed else "All checks passed.\n")
    sys.exit(bool(failed))


def run(name: str, findings: Findings) -> list[dict[str, Any]]:
    """Run a section; an error is a check that failed, and the other sections follow."""
    start = time.monotonic()
    as_nnunet_sets_cudnn()
    try:
        SECTIONS[name](findings)
    except Exception as error:
        traceback.print_exc()
        findings.check(name, False, error=f"{type(error).__name__}: {str(error)[:300]}")
    forget_everything_compiled()
    findings.note(f"{name}, seconds", seconds=time.monotonic() - start)
    return findings.rows


def write(out: Path, device: str, sections: dict[str, Any]) -> None:
    """Write the sections to the file, beside those of earlier runs on the same machine."""
    machine = {
        "device": torch.cuda.get_device_name()
        if device == "cuda"
        else f"CPU, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    earlier = json.loads(out.read_text()) if out.exists() else {}
    kept = earlier["sections"] if earlier.get("machine") == machine else {}
    merged = {**kept, **sections}
    ordered = {name: merged[name] for name in SECTIONS if name in merged}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": machine, "sections": ordered}, indent=1) + "\n")


if __name__ == "__main__":
    main()
