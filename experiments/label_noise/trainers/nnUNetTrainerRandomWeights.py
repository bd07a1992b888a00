"""Makes the trainer with random weights known to nnU-Net.

nnU-Net looks for `-tr NAME` in the modules of this folder, which is named in the environment
variable ``nnUNet_extTrainer`` (nnunetv2 >= 2.8). It has no ``__init__.py``, as nnU-Net imports this
file by its bare name.
"""


def __getattr__(name: str) -> type:
    if not name.startswith("nnUNetTrainerRandomWeights"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from experiments.label_noise.random_weights import random_weights_trainer

    return random_weights_trainer(name)
