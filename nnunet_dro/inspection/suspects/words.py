"""What `suspects` says, in words."""

from pathlib import Path

from nnunet_dro.inspection.suspects.ranking import DICE, FEW, LOSS, WEIGHT
from nnunet_dro.nnunet.folders import SPLITS_FILE
from nnunet_dro.pages.words import Words

#: The list of cases to leave out, which users edit.
EXCLUSIONS_FILE = "exclusions.txt"

WORDS = Words(
    Path(__file__).with_suffix(".jinja"),
    {
        "DICE": DICE,
        "EXCLUSIONS_FILE": EXCLUSIONS_FILE,
        "FEW": FEW,
        "LOSS": LOSS,
        "SPLITS_FILE": SPLITS_FILE,
        "WEIGHT": WEIGHT,
    },
)
