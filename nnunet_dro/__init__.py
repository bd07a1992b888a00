"""nnU-Net v2, trained and evaluated for its hardest patients."""

__version__ = "0.3.0"
