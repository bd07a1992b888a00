"""The device on which the experiments train and predict."""


def device_name() -> str:
    """A GPU where there is one, as nnU-Net's option ``-device`` and torch name it."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
