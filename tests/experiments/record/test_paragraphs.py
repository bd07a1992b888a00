"""Paragraphs of pages are filled, and nothing else changes."""

from experiments.record.paragraphs import filled

LONG = "word " * 40


def test_a_long_paragraph_is_filled_and_keeps_its_words():
    text = f"# Heading\n\n{LONG}\nand more\n\n| {LONG} |\n"

    result = filled(text)

    paragraph = result.split("\n\n")[1]
    assert max(map(len, paragraph.split("\n"))) <= 118
    assert paragraph.split() == f"{LONG} and more".split()
    assert f"| {LONG} |\n" in result
    assert filled(result) == result


def test_items_keep_their_indent_and_code_its_lines():
    code = f"```bash\npython {LONG}\n```"
    text = f"- first {LONG}\n- second\n\n{code}"

    result = filled(text)

    assert result.count("\n  word") == 1
    assert "\n- second\n" in result
    assert code in result


def test_links_and_inline_code_are_not_divided():
    text = f"{'x' * 100} `some code in a line` [a link](target of it) {LONG}"

    result = filled(text)

    assert "`some code in a line`" in result
    assert "](target of it)" in result


def test_short_paragraphs_stay_as_they_are():
    text = "One line,\nand another.\n\n1. An item\n   of two lines\n"

    assert filled(text) == text
