"""Train as `nnUNetv2_train` does, on a CPU in one thread.

    python -m experiments.nnunet_runs.train DATASET CONFIGURATION FOLD -tr TRAINER -p PLANS --times FILE

The command itself takes a thread for every processor of the machine, whatever the environment says; beside other work
these wait for each other, and times say nothing. The processor time of the training goes to a file.
"""

import argparse
import json
import time
from pathlib import Path

from nnunet_dro.atomic import replacing


def main() -> None:
    """Train one model with nnU-Net."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("configuration")
    parser.add_argument("fold")
    parser.add_argument("-tr", required=True, help="Name of the trainer.")
    parser.add_argument("-p", required=True, help="Name of the plans.")
    parser.add_argument("--times", type=Path, required=True, help="JSON file for the processor time in seconds.")
    arguments = parser.parse_args()

    import torch
    from nnunetv2.run.run_training import run_training

    torch.set_num_threads(1)
    start = time.process_time()
    run_training(
        arguments.dataset,
        arguments.configuration,
        arguments.fold,
        arguments.tr,
        arguments.p,
        device=torch.device("cpu"),
    )
    with replacing(arguments.times) as partial:
        partial.write_text(json.dumps({"cpu_seconds": time.process_time() - start}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
