"""A complete run on real images, small enough for a laptop: plain against robust training."""

from nnunet_dro.demo.preparation import DemoSettings
from nnunet_dro.demo.run import run_demo

__all__ = ["DemoSettings", "run_demo"]
