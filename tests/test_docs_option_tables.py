"""The tables of trainers, options and folders in the documentation are those of the package."""

import pytest

from docs import option_tables as tables
from nnunet_dro.trainers.options import OPTIONS
from nnunet_dro.trainers.registry import TRAINERS


def edited(page):
    """The page with a table that somebody changed by hand."""
    assert page.count("| option | meaning |") == 1
    return page.replace("| option | meaning |", "| option | explanation |")


def text_of(name):
    return (tables.FOLDER / tables.TABLES[name][0]).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["trainers", "options", "columns", "rooms"])
def test_the_committed_page_has_the_table_of_the_package(name):
    page = text_of(name)
    assert page == tables.with_table(page, name), "run: python docs/option_tables.py"

    if name in ("trainers", "options"):
        every = {"trainers": TRAINERS, "options": OPTIONS}[name]
        assert getattr(tables, f"{name}_table")(page).count("\n") == 2 + len(every)


def test_a_changed_table_is_made_anew_and_its_place_must_be_there():
    page = text_of("options")
    assert tables.with_table(edited(page), "options") == page

    edits = [
        ("### `momentum<m>`", "### History", "momentum<m>"),
        ("<!-- end options -->", "", "end options"),
    ]
    for old, new, message in edits:
        with pytest.raises(ValueError, match=message):
            tables.with_table(page.replace(old, new), "options")


@pytest.mark.parametrize("edit", [lambda page: page, edited], ids=["same", "edited"])
def test_check_says_whether_a_page_differs_and_changes_nothing(tmp_path, monkeypatch, capsys, edit):
    pages = {name: text_of(name) for name in tables.TABLES}
    differs = edit(pages["options"]) != pages["options"]
    pages["options"] = edit(pages["options"])
    monkeypatch.setattr(tables, "FOLDER", tmp_path / "docs")
    (tmp_path / "docs").mkdir()
    for name, page in pages.items():
        (tables.FOLDER / tables.TABLES[name][0]).write_text(page, encoding="utf-8")

    monkeypatch.setattr("sys.argv", ["option_tables.py", "--check"])

    assert tables.main() == int(differs)
    assert {name: text_of(name) for name in pages} == pages
    assert ("differs" in capsys.readouterr().err) == differs
