"""Texts of the experiments, from templates in markdown.

A template has the sentences, Python the values.
"""

from functools import cache
from pathlib import Path
from types import ModuleType

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from experiments.record.markdown_table import markdown_table, shown_rows


def render(template: str, *modules: ModuleType, **values: object) -> str:
    """The text of a template, as ``digits/page``.

    The template knows the values, and the constants of the modules in lower case.
    """
    names: dict[str, object] = {}
    for module in modules:
        for name, value in vars(module).items():
            if name.isupper():
                names[name.lower()] = value
    names |= values
    return _environment().get_template(f"{template}.md.jinja").render(names).strip()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parents[1]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Markdown for a file, not markup for a browser.
        autoescape=False,
    )
    environment.filters |= {
        "table": markdown_table,
        "shown_rows": shown_rows,
        "per_cent": _per_cent,
    }
    return environment


def _per_cent(fraction: float, decimals: int = 1) -> str:
    return f"{100 * fraction:.{decimals}f}"
