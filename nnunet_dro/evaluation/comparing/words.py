"""What a comparison says of its trainings, its cases and their values; see words.jinja."""

from pathlib import Path

from nnunet_dro.pages.words import Words

#: Says values, by the name of a macro and what it is about, each sentence by itself.
sentences = Words(Path(__file__).with_name("words.jinja")).sentences
