"""Makes the trainers of nnunet-dro known to nnU-Net, which looks for `-tr NAME` in this folder.

It is installed by nnunet-dro beside nnU-Net's own trainer, and removed with it. It imports nothing
until a name that starts like one of ours is asked for, so that every other trainer is found as if
this file were not here.
"""


def __getattr__(name: str) -> type:
    kinds = ("DRO", "HWS", "GroupDRO", "IW", "L2RW", "LS", "GILS")
    if not name.startswith(tuple(f"nnUNetTrainer{kind}" for kind in kinds)):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    from nnunet_dro.trainers.registry import trainer_class

    return trainer_class(name)
