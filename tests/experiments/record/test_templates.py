from pathlib import Path

import pytest
from jinja2 import UndefinedError

from experiments.record import render, templates

FOLDER = Path(templates.__file__).parents[1]


def test_missing_value_is_an_error_and_not_a_gap():
    with pytest.raises(UndefinedError, match="is undefined"):
        render("record/record", title="Only a title")


@pytest.mark.parametrize(
    "template", sorted(FOLDER.rglob("*.jinja")), ids=lambda at: f"{at.parent.name}-{at.stem}"
)
def test_every_template_can_be_read(template):
    templates._environment().get_template(template.relative_to(FOLDER).as_posix())
