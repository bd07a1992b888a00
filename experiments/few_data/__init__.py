"""nnU-Net with eight training cases: plain, with label smoothing, and with GI-LS."""
