"""A complete run on real images, small enough for a laptop: plain nnU-Net compared with robust training."""

from nnunet_dro.demo.dataset import build_dataset
from nnunet_dro.demo.run import run_demo

__all__ = ["build_dataset", "run_demo"]
