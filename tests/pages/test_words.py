"""Sentences from a template: what ends one, and what a definition is."""

import pytest

from nnunet_dro.pages.words import Words

TEMPLATE = """\
{% macro about(cases) %}
{{ count(cases | length, "case") }}
{%- if cases %}: {{ cases | join(", ") }}{% endif %}.

{% if cases | length > 1 %}
They are
    several.

{% endif %}
<b> is no tag.
{% endmacro %}

{% macro terms() %}
Rank
from 1
on.

Loss: mean
of the last epoch.
{% endmacro %}
"""


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.jinja"
    path.write_text(TEMPLATE)
    return Words(path, {"count": lambda n, noun: f"{n} {noun}(s)"})


def test_a_blank_line_ends_a_sentence_and_other_breaks_are_spaces(words):
    assert words.sentences("about", cases=["a", "<b>"]) == [
        "2 case(s): a, <b>.",
        "They are several.",
        "<b> is no tag.",
    ]
    assert words.sentence("about", cases=[]) == "0 case(s). <b> is no tag."


def test_the_first_line_of_a_definition_is_its_term(words):
    assert words.definitions("terms") == [
        ("Rank", "from 1 on."),
        ("Loss: mean", "of the last epoch."),
    ]
