"""Train as `nnUNetv2_train` does, on a GPU where there is one, otherwise on a CPU in one thread.

    python -m experiments.nnunet_runs.train DATASET CONFIGURATION FOLD
        -tr TRAINER -p PLANS --seed SEED --times FILE

The command itself takes a thread for every processor of the machine, whatever the environment says;
beside other work these wait for each other, and times say nothing. The processor time of the
training goes to a file. With `--from`, it is a finetuning of the model in that folder.

nnU-Net's own command is not seeded. Here, trainings of the same seed start from the same weights,
and draw and augment from the same random numbers, as far as their trainers ask for the same ones.
"""

import argparse
import json
import random
import time
from pathlib import Path

import numpy as np

from experiments.device import device_name
from nnunet_dro.files.output_folder import write_files


def main() -> None:
    """Train one model with nnU-Net."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("dataset", "configuration", "fold"):
        parser.add_argument(name)
    parser.add_argument("-tr", required=True, help="Name of the trainer.")
    parser.add_argument("-p", required=True, help="Name of the plans.")
    parser.add_argument(
        "--seed", type=int, required=True, help="Seed of the first weights, draws and augmentation."
    )
    parser.add_argument(
        "--times", type=Path, required=True, help="JSON file for the processor time in seconds."
    )
    parser.add_argument("--from", dest="source", help="Fold folder of the model to start from.")
    arguments = parser.parse_args()

    import torch
    from nnunetv2.run.run_training import run_training

    torch.set_num_threads(1)
    start = time.process_time()
    place = (arguments.dataset, arguments.configuration, arguments.fold)
    if arguments.source is not None:
        from nnunet_dro.model_folders.finetuning import write_first_checkpoint
        from nnunet_dro.model_folders.source_model import find_source, read_source
        from nnunet_dro.nnunet.training import find_target

        target = find_target(*place, plans=arguments.p)
        model = read_source(find_source(arguments.source, target))
        write_first_checkpoint(target, arguments.tr, model, device="cpu")
    # A finetuning has built a network for its first checkpoint before.
    set_seed(arguments.seed)
    device = torch.device(device_name())
    run_training(
        *place,
        arguments.tr,
        arguments.p,
        continue_training=arguments.source is not None,
        device=device,
    )
    content = json.dumps({"cpu_seconds": time.process_time() - start})
    write_files(arguments.times.parent, {arguments.times.name: f"{content}\n"})


def set_seed(seed: int) -> None:
    """Seed all global generators from which nnU-Net draws: torch's, numpy's and Python's."""
    import torch

    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)


if __name__ == "__main__":
    main()
