"""The frame of every page: one HTML file that sends no request and holds nothing from elsewhere."""

import re
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

#: What a browser may load into a page: its own styles, scripts and pictures, and nothing from anywhere else.
CONTENT_SECURITY_POLICY = Markup(
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


@cache
def page_environment(*folders: Path) -> Environment:
    """The templates in some folders, and those that all pages share; a folder given earlier takes precedence."""
    environment = Environment(
        loader=FileSystemLoader([*folders, Path(__file__).parent / "assets"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = breakable
    environment.globals["content_security_policy"] = CONTENT_SECURITY_POLICY
    return environment


def breakable(name: str) -> Markup:
    """A name that may be broken after ``_``, ``-``, ``/`` and ``.``, and before the humps of camel case."""
    return Markup(re.sub(r"(?<=[_/-])(?=\w)|(?<=\.|[a-z])(?=[A-Z])|(?<=\.)(?=[a-z])", "<wbr>", str(escape(name))))


def page_assets() -> dict[str, Markup]:
    """The ``style`` and the ``script`` that ``base.html`` puts into every page."""
    environment = page_environment()
    source = environment.loader.get_source(environment, "page.js")[0] if environment.loader else ""
    return {"style": Markup(environment.get_template("style.css").render()), "script": Markup(source)}
