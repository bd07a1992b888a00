from pathlib import Path

import pandas as pd
import pytest
from jinja2 import UndefinedError

from experiments.record import markdown_table, render, templates

FOLDER = Path(templates.__file__).parents[1]


def test_missing_value_is_an_error_and_not_a_gap():
    with pytest.raises(UndefinedError, match="is undefined"):
        render("record/record", title="Only a title")


def test_text_is_that_of_the_template_with_its_values(monkeypatch, tmp_path):
    (tmp_path / "family").mkdir()
    text = "\n{% if told %}\n{{ n }} cases < 5 & more:\n\n{{ rows | table }}\n{% endif %}\n\n"
    (tmp_path / "family" / "page.md.jinja").write_text(text)
    monkeypatch.setattr(templates, "__file__", str(tmp_path / "record" / "templates.py"))
    templates._environment.cache_clear()
    rows = pd.DataFrame({"a": [1]})
    try:
        assert render("family/page", n=4, told=True, rows=rows) == f"4 cases < 5 & more:\n\n{markdown_table(rows)}"
    finally:
        templates._environment.cache_clear()


@pytest.mark.parametrize(
    "template", sorted(FOLDER.rglob("*.jinja")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_every_template_can_be_read(template):
    templates._environment().get_template(template.relative_to(FOLDER).as_posix())
