"""A complete run on real images, small enough for a laptop: empirical risk minimisation beside robust training."""

from nnunet_dro.demo.dataset import build_dataset
from nnunet_dro.demo.run import DEFAULT_OPTIONS, run_demo
from nnunet_dro.nnunet.command import DemoError

__all__ = ["DEFAULT_OPTIONS", "DemoError", "build_dataset", "run_demo"]
