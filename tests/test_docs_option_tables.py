"""The tables of trainers and options in docs/trainers.md are those of the registry."""

import importlib.util
from pathlib import Path

import pytest

from nnunet_dro.trainers.options import OPTIONS
from nnunet_dro.trainers.registry import TRAINERS

SCRIPT = Path(__file__).parents[1] / "docs" / "option_tables.py"


@pytest.fixture(scope="module")
def option_tables():
    spec = importlib.util.spec_from_file_location("option_tables", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def edited(page):
    """The page with a table that somebody changed by hand."""
    assert page.count("| option | meaning |") == 1
    return page.replace("| option | meaning |", "| option | explanation |")


def test_the_committed_page_has_the_tables_of_the_registry(option_tables):
    page = option_tables.PAGE.read_text(encoding="utf-8")
    assert page == option_tables.with_tables(page), "run: python docs/option_tables.py"


def test_every_trainer_and_every_option_has_a_row(option_tables):
    page = option_tables.PAGE.read_text(encoding="utf-8")
    assert option_tables.trainers_table(page).count("\n") == 2 + len(TRAINERS)
    assert option_tables.options_table(page).count("\n") == 2 + len(OPTIONS)


def test_a_changed_table_is_made_anew(option_tables):
    page = option_tables.PAGE.read_text(encoding="utf-8")
    assert option_tables.with_tables(edited(page)) == page


def test_an_option_without_a_section_is_an_error(option_tables):
    page = option_tables.PAGE.read_text(encoding="utf-8").replace("### `momentum<m>`", "### History")
    with pytest.raises(ValueError, match="momentum<m>"):
        option_tables.with_tables(page)


def test_a_page_without_the_place_of_a_table_is_an_error(option_tables):
    page = option_tables.PAGE.read_text(encoding="utf-8").replace("<!-- end options -->", "")
    with pytest.raises(ValueError, match="end options"):
        option_tables.with_tables(page)


@pytest.mark.parametrize("edit", [lambda page: page, edited], ids=["same", "edited"])
def test_check_says_whether_the_page_differs_and_changes_nothing(option_tables, tmp_path, monkeypatch, capsys, edit):
    page = option_tables.PAGE.read_text(encoding="utf-8")
    copy = tmp_path / "trainers.md"
    copy.write_text(edit(page), encoding="utf-8")
    monkeypatch.setattr(option_tables, "PAGE", copy)
    monkeypatch.setattr("sys.argv", ["option_tables.py", "--check"])
    differs = edit(page) != page
    assert option_tables.main() == int(differs)
    assert copy.read_text(encoding="utf-8") == edit(page)
    assert ("differs" in capsys.readouterr().err) == differs
