"""What the columns of the table of measured cases are called."""

#: Entries of the column ``set``.
TRAINING = "training"
VALIDATION = "validation"

#: What the default trainer would keep of the losses of the patches.
HARDNESS = "hardness"

#: What columns begin with, before the number of a patch or the name of a label.
LOSS = "loss_"
DICE = "dice_"
VOXELS = "voxels_"
CONTRAST = "contrast_"
