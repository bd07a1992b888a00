"""Paragraphs of a page, filled after the values are in."""

import re
import textwrap

#: Lines of a paragraph are filled to this width where one of them is longer than the limit.
_WIDTH = 118
_LONGEST = 125

_FENCE = re.compile(r"\s*(```|~~~)")
#: What is no paragraph: a row of a table, a heading, HTML, a picture, a quotation.
_OTHER = re.compile(r"\s*(\||#|<|!\[|>)")
_BULLET = re.compile(r"(\s*)([-*+] |\d+\. )?")
#: Inline code and the targets of links must not be divided.
_WHOLE = re.compile(r"`[^`]*`|\]\([^)]*\)")


def filled(markdown: str) -> str:
    """Markdown with its long paragraphs and items of lists filled anew; the rest stays as it is."""
    result: list[str] = []
    paragraph: list[str] = []
    in_code = False
    for line in [*markdown.split("\n"), ""]:
        is_fence = _FENCE.match(line) is not None
        in_code ^= is_fence
        is_other = in_code or is_fence or not line.strip() or _OTHER.match(line) is not None
        begins_item = bool(_bullet(line)) and not is_other
        if is_other or begins_item:
            result += _filled_paragraph(paragraph)
            paragraph = []
        if is_other:
            result.append(line)
        else:
            paragraph.append(line)
    return "\n".join(result[:-1])


def _bullet(line: str) -> str:
    match = _BULLET.match(line)
    return match[2] or "" if match else ""


def _filled_paragraph(lines: list[str]) -> list[str]:
    """The lines of a paragraph, filled if one of them is too long."""
    if all(len(line) <= _LONGEST for line in lines):
        return lines

    bullet = _bullet(lines[0])
    indent = " " * (len(lines[0]) - len(lines[0].lstrip()))
    text = " ".join(line.strip() for line in lines).removeprefix(bullet)
    whole = _WHOLE.sub(lambda match: match[0].replace(" ", "\0"), text)
    new = textwrap.wrap(
        whole,
        _WIDTH,
        initial_indent=indent + bullet,
        subsequent_indent=indent + " " * len(bullet),
        break_long_words=False,
        break_on_hyphens=False,
    )
    # A line that happens to begin like an item or a heading would become one.
    if any(_bullet(line) or _OTHER.match(line) for line in new[1:]):
        return lines
    return [line.replace("\0", " ") for line in new]
