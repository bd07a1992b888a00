"""The frame of every page: one HTML file that sends no request and holds nothing from elsewhere."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup


@cache
def page_environment(*folders: Path) -> Environment:
    """The templates in some folders, and those that all pages share; a folder given earlier takes precedence."""
    return Environment(
        loader=FileSystemLoader([*folders, Path(__file__).parent / "assets"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def page_assets() -> dict[str, Markup]:
    """The ``style`` and the ``script`` that ``base.html`` puts into every page."""
    environment = page_environment()
    source = environment.loader.get_source(environment, "page.js")[0] if environment.loader else ""
    return {"style": Markup(environment.get_template("style.css").render()), "script": Markup(source)}
