"""What mkdocs does with the pages: files of the repository as pages, a reference of the commands.

A page of the site that stands for another file holds one line, ``<!-- file CHANGELOG.md -->``; the
reference of the commands holds ``<!-- commands -->``. So nothing is written twice, and nothing can
be old.
"""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

#: Files outside of the pages that have a page of their own.
PAGES = {"CHANGELOG.md": "changes.md", "CONTRIBUTING.md": "contributing.md"}


def on_config(config: Any) -> Any:
    """Anchors as GitHub makes them, so that a link works in both places."""
    config["mdx_configs"].setdefault("toc", {})["slugify"] = github_slug
    return config


def github_slug(heading: str, separator: str) -> str:
    """The anchor of a heading.

    Example:
        >>> github_slug("la<tau> and vs<gamma>", "-")
        'latau-and-vsgamma'
    """
    kept = [character for character in heading.lower() if character.isalnum() or character in "_- "]
    return "".join(kept).replace(" ", separator)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The text of a page as the site shows it.

    Args:
        markdown: The text.
        page: The page, whose ``file.src_uri`` is its path from the folder of the pages.
    """
    if match := re.fullmatch(r"\s*<!-- file (\S+) -->\s*", markdown):
        markdown = (ROOT / match[1]).read_text(encoding="utf-8")
        return of_site(markdown, folder=Path())
    if "<!-- commands -->" in markdown:
        markdown = markdown.replace("<!-- commands -->", commands())
    return of_site(markdown, folder=Path("docs", page.file.src_uri).parent)


def of_site(markdown: str, *, folder: Path) -> str:
    """The text with links to other pages of the site.

    Links to files that have no page become their paths.

    Args:
        markdown: The text.
        folder: The folder of the file, from that of the repository.
    """

    def link(match: re.Match[str]) -> str:
        text = match[1]
        target = match[2]
        path, _, anchor = target.partition("#")
        if "://" in target or not path:
            return match[0]
        # Resolved by hand: a path need not exist on the machine that builds the site.
        place = Path(*_resolved((folder / path).parts)).as_posix()
        if place in PAGES:
            name = PAGES[place]
        elif place.startswith("docs/"):
            name = place.removeprefix("docs/")
        else:
            return f"{text} (`{place}`)"
        if anchor:
            name += f"#{anchor}"
        here = folder.relative_to("docs") if folder.parts[:1] == ("docs",) else Path()
        return f"[{text}]({'../' * len(here.parts)}{name})"

    return re.sub(r"(?<!!)\[([^][]*(?:\[[^][]*\][^][]*)*)\]\(([^)\s]+)\)", link, markdown)


def _resolved(parts: tuple[str, ...]) -> list[str]:
    """The parts of a path without ``..``."""
    kept: list[str] = []
    for part in parts:
        if part == "..":
            kept.pop()
        else:
            kept.append(part)
    return kept


def commands() -> str:
    """A section per command of nnunet-dro: what it does, its arguments and its options."""
    import typer

    from nnunet_dro.cli import app

    group = typer.main.get_command(app)
    sections = []
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        with typer.Context(command, info_name=f"nnunet-dro {name}") as ctx:
            usage = command.get_usage(ctx).removeprefix("Usage: ")
        shown = [param for param in command.params if not getattr(param, "hidden", False)]
        head = ["| option | what it is | default |", "| --- | --- | --- |"]
        table = "\n".join([*head, *map(_row, shown)])
        sections.append(f"## {name}\n\n{command.help}\n\n```text\n{usage}\n```\n\n{table}")
    return "\n\n".join(sections)


def _row(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    names = f"`{(parameter.metavar or parameter.name).upper()}`"
    if is_option:
        names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))

    default = parameter.default
    shown = "required" if parameter.required else ""
    if is_option and default not in (None, False, (), []) and not callable(default):
        shown = f"`{getattr(default, 'value', default)}`"
    text = (getattr(parameter, "help", "") or "").replace("|", "\\|").replace("<", "&lt;")
    return f"| {names} | {text} | {shown} |"
