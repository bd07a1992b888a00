"""Trains on two ranks through nnU-Net's own `run_ddp`, on the CPU; a program of its own that forks
the ranks.

    python -m tests.trainers.two_ranks DATASET_ID FOLDER TRAINER=CONFIGURATION ...

`run_ddp` asks for CUDA and NCCL. Here PyTorch takes gloo instead, and our trainers say that their
device is the CPU. Nothing of nnU-Net is changed, but its validation at the end, which is not about
ranks, is left out. The first training is killed at the start of its second epoch, and another one
continues it, as with --c.
"""

import os
import sys
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from nnunetv2.run.run_training import run_ddp
from torch import distributed as dist
from torch import multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

from nnunet_dro.trainers.hardness_weighted import HardnessWeighted

KILLED = 9
init_process_group = dist.init_process_group
wrap = DistributedDataParallel.__init__


def _rank(rank, dataset, configuration, trainer, folder, continues):
    torch.set_num_threads(1)
    sys.stdout = (folder / f"{rank}{continues}.log").open("w")
    np.random.seed(10 * rank + continues)  # the ranks of nnU-Net draw different patches too

    def keep(self, when):
        table = self.hardness_log.table
        log = self.hardness_log
        pool = {} if self.loss.pooled is None else self.loss.pooled.state_dict()
        np.savez(
            folder / f"{when}{rank}.npz",
            losses=table.losses,
            probabilities=table.probabilities(),
            epoch=self.current_epoch,
            parameters=torch.cat(
                [p.detach().reshape(-1) for p in self.network.parameters()]
            ).numpy(),
            summaries=len(log.rows),
            is_wrapped=isinstance(self.network, DistributedDataParallel),
            **pool,
        )

    def epoch_starts(self, start=HardnessWeighted.on_train_epoch_start):
        if self.current_epoch == 1 and not continues:
            keep(self, "killed")
            dist.barrier()
            os._exit(KILLED)
        if self.current_epoch == 1:
            keep(self, "continued")
        start(self)

    def training_ends(self):
        keep(self, "ended")
        super(HardnessWeighted, self).on_train_end()

    # A file: a port that is free now may be taken before the ranks meet there.
    meeting = f"file://{folder}/meeting{continues}"
    with (
        mock.patch.object(
            dist,
            "init_process_group",
            lambda _, **how: init_process_group("gloo", init_method=meeting, **how),
        ),
        mock.patch.object(torch.cuda, "set_device"),
        mock.patch.object(
            DistributedDataParallel, "__init__", lambda self, module, device_ids: wrap(self, module)
        ),
        mock.patch.object(HardnessWeighted, "device", _cpu, create=True),
        mock.patch.object(HardnessWeighted, "on_train_epoch_start", epoch_starts),
        mock.patch.object(HardnessWeighted, "on_train_end", training_ends, create=True),
        mock.patch.object(HardnessWeighted, "perform_actual_validation", create=True),
    ):
        # In the order of its signature: no pretrained weights, no probabilities, validation of the
        # last checkpoint.
        run_ddp(
            rank,
            dataset,
            configuration,
            0,
            trainer,
            "nnUNetPlans",
            False,
            continues,
            False,
            None,
            False,
            False,
            2,
        )


_cpu = property(lambda self: torch.device("cpu"), lambda self, device: None)


def main(dataset, folder, *trainings):
    for training, continues in product(trainings, (False, True)):
        trainer, configuration = training.split("=")
        own = Path(folder) / trainer
        own.mkdir(exist_ok=True)
        try:
            arguments = (dataset, configuration, trainer, own, continues)
            mp.start_processes(_rank, args=arguments, nprocs=2, start_method="fork")
        except mp.ProcessExitedException as error:
            if continues or error.exit_code != KILLED:
                raise


if __name__ == "__main__":
    main(*sys.argv[1:])
