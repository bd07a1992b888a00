"""The cost of an iteration of GI-LS against T: plain nnU-Net and every T in turn, on the same batches, in one process.

    python -m experiments.few_data.cost DATASET CONFIGURATION -p PLANS --times FILE

nnU-Net's variables say where the dataset is. The processor time of every iteration goes to a file.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.atomic import replacing

#: Steps of the inner maximisation.
STEPS = (1, 2, 5, 10, 15)

#: T in the rows of the plain training.
PLAIN = 0

#: Rounds of iterations that are not counted, and those that are.
_WARM_UP, _ROUNDS, _QUICK_ROUNDS = 3, 24, 2


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and write a row per round and trainer."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("configuration")
    parser.add_argument("-p", dest="plans", required=True, help="Name of the plans.")
    parser.add_argument("--times", type=Path, required=True, help="JSON file for the times.")
    parser.add_argument("--quick", action="store_true", help="Measure few rounds only, to see that it works.")
    arguments = parser.parse_args(words)
    rows = measure(arguments.dataset, arguments.configuration, arguments.plans, quick=arguments.quick)
    with replacing(arguments.times) as partial:
        partial.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def measure(dataset: str, configuration: str, plans: str, *, quick: bool = False) -> list[dict[str, float]]:
    """Measure the time of iterations.

    Args:
        dataset: Name of a preprocessed dataset.
        configuration: A configuration of the plans.
        plans: Name of the plans.
        quick: Whether to measure few rounds only.

    Returns:
        A row per round and trainer: ``round``, ``T`` (`PLAIN` for plain nnU-Net), ``ms`` of the processor for the
        iteration, and ``batch_ms`` for drawing and augmenting its batch, which is one for all.
    """
    import torch

    torch.set_num_threads(1)
    folder = Path(os.environ["nnUNet_preprocessed"]) / dataset
    trainers = {steps: _trainer(steps, folder, configuration, plans) for steps in (PLAIN, *STEPS)}
    rows = []
    for number in range(-_WARM_UP, _QUICK_ROUNDS if quick else _ROUNDS):
        start = time.process_time()
        batch = next(trainers[PLAIN].dataloader_train)
        batch_ms = 1e3 * (time.process_time() - start)
        # Who goes first changes, so that nobody always finds the caches as the same other left them.
        order = np.roll(list(trainers), number)
        for steps in order:
            start = time.process_time()
            trainers[steps].train_step(dict(batch))
            milliseconds = 1e3 * (time.process_time() - start)
            rows.append({"round": number, "T": int(steps), "ms": milliseconds, "batch_ms": batch_ms})
    return [row for row in rows if row["round"] >= 0]


def _trainer(steps: int, folder: Path, configuration: str, plans: str) -> Any:
    import torch

    from nnunet_dro.trainers.options import GILSOptions
    from nnunet_dro.trainers.registry import trainer_class

    options = replace(GILSOptions(), steps=steps or 1)
    name = "nnUNetTrainerHWS_beta0" if steps == PLAIN else f"nnUNetTrainerGILS{options.suffix()}"
    content, description = (
        json.loads((folder / f"{file}.json").read_text(encoding="utf-8")) for file in (plans, "dataset")
    )
    # nnU-Net's command puts it in there, too.
    content["continue_training"] = False
    trainer = trainer_class(name)(content, configuration, 0, description, torch.device("cpu"))
    trainer.disable_checkpointing = True
    trainer.on_train_start()
    return trainer


def cost_table(rows: pd.DataFrame) -> pd.DataFrame:
    """The time of an iteration against T.

    Args:
        rows: As from `measure`.

    Returns:
        A row per T, `PLAIN` first: ``ms`` (median), ``ratio`` to the plain iteration of the same round (median, with
        the quartiles ``ratio_p25`` and ``ratio_p75``), and ``ratio_with_batch`` with the time for the batch on both
        sides.
    """
    plain = rows[rows["T"] == PLAIN].set_index("round")
    table = []
    for steps, of_steps in rows.groupby("T"):
        times = of_steps.set_index("round")
        ratios = times["ms"] / plain["ms"]
        with_batch = (times["ms"] + times["batch_ms"]) / (plain["ms"] + plain["batch_ms"])
        row = {"T": steps, "ms": times["ms"].median(), "ratio": ratios.median(), "ratio_p25": ratios.quantile(0.25)}
        row |= {"ratio_p75": ratios.quantile(0.75), "ratio_with_batch": with_batch.median()}
        table.append(row)
    return pd.DataFrame(table)


def cost_line(table: pd.DataFrame) -> tuple[float, float]:
    """The straight line through the ratios of GI-LS: what an iteration costs without steps, and what each step adds.

    Args:
        table: From `cost_table`.
    """
    of_gils = table[table["T"] != PLAIN]
    slope, start = np.polyfit(of_gils["T"], of_gils["ratio"], 1)
    return float(start), float(slope)


if __name__ == "__main__":
    main()
