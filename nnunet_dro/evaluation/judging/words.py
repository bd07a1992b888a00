"""What verdicts rest on, in words; see words.jinja."""

from pathlib import Path

from nnunet_dro.evaluation.scoring.failures import IN_WORDS
from nnunet_dro.pages.words import Words

#: Says values, by the name of a macro and what it is about.
say = Words(Path(__file__).with_name("words.jinja"), {"IN_WORDS": IN_WORDS}).sentence
