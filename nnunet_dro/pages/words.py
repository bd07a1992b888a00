"""Sentences: what a room says of its values stands in one template, and code makes the values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from nnunet_dro.naming import count, label_words, name_some, share
from nnunet_dro.pages.html import page_environment

#: What every template may use.
_NAMES = {"count": count, "label_words": label_words, "name_some": name_some, "share": share}


@dataclass(frozen=True)
class Words:
    """The words of a room, which a template has in macros.

    In the text of a macro, a blank line ends a sentence; other line breaks and indents count as a
    space each.
    """

    template: Path
    #: What else the template may use beside the values that a macro is given: functions and
    #: constants.
    names: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def _macros(self) -> Any:
        environment = page_environment(self.template.parent).overlay(autoescape=False)
        template = environment.get_template(self.template.name, globals=_NAMES | dict(self.names))
        return template.module

    def _paragraphs(self, macro: str, values: Mapping[str, Any]) -> list[str]:
        text = str(getattr(self._macros, macro)(**values))
        paragraphs = [paragraph.strip() for paragraph in text.split("\n\n")]
        return [paragraph for paragraph in paragraphs if paragraph]

    def sentences(self, macro: str, **values: Any) -> list[str]:
        """What a macro says of some values, each sentence as an item."""
        return [" ".join(text.split()) for text in self._paragraphs(macro, values)]

    def sentence(self, macro: str, **values: Any) -> str:
        """What a macro says of some values, as one text."""
        return " ".join(self.sentences(macro, **values))

    def definitions(self, macro: str, **values: Any) -> list[tuple[str, str]]:
        """Terms and their definitions: the first line of each paragraph is the term."""
        pairs = []
        for paragraph in self._paragraphs(macro, values):
            term, _, text = paragraph.partition("\n")
            pairs.append((term, " ".join(text.split())))
        return pairs
