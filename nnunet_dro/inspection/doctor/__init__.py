"""Would robust training help? Looks at a finished training of nnU-Net, without training.

It measures the losses of augmented patches and the Dice of a full prediction for every training and
validation case. A few rules over the table of these numbers name one of five findings.
"""

from nnunet_dro.inspection.doctor.answer import Answer
from nnunet_dro.inspection.doctor.examination import examine

__all__ = ["Answer", "examine"]
