"""Finetuning: a training of this package's trainers that starts from a finished one, its segmentation heads included.

`finetune` is the command; it imports nnU-Net and everything else that is heavy when it is called.
"""

from nnunet_dro.finetuning.finetune_command import finetune

__all__ = ["finetune"]
