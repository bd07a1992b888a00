"""The site is built strictly, without a dead link or anchor, and every notebook runs and shows what
it says."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    config = pytest.importorskip("mkdocs.config")
    build = pytest.importorskip("mkdocs.commands.build")
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setattr(sys, "path", [str(ROOT), *sys.path])
        build.build(config.load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder


def text_of(site, page):
    return (site / page / "index.html").read_text(encoding="utf-8")


def test_the_first_page_says_where_to_look(site):
    text = text_of(site, "")
    assert "you have" in text
    assert 'href="trainers/#nnunettrainerdro"' in text
    assert "docs/" not in text.partition("<article")[2].partition("</article>")[0]


def test_the_reference_has_every_command_and_option(site):
    import typer

    from nnunet_dro.cli import app

    text = text_of(site, "reference/commands")

    for name, command in typer.main.get_command(app).commands.items():
        assert f'<h2 id="{name}">' in text
        assert all(
            option in text
            for parameter in command.params
            for option in parameter.opts
            if option[0] == "-"
        )


def test_examples_of_docstrings_are_code(site):
    text = text_of(site, "reference/python")
    assert "nnunet_dro.sampling.HardnessTable" in text
    assert "&gt;&gt;&gt;" in text
    assert "<p>Example:" not in text


@pytest.mark.parametrize(
    "page", ["", "trainers", "reference/commands", "notebooks/predictions-to-findings"]
)
def test_nothing_is_loaded_from_elsewhere(site, page):
    text = text_of(site, page)
    assert 'src="http' not in text
    assert "fonts.googleapis" not in text


NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_gives_the_outputs_that_it_holds(path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)

    held = texts_of(notebook)

    assert held

    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    assert texts_of(notebook) == held


def texts_of(notebook):
    """What the cells print, and show of tables and values; pictures differ with fonts."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output.get("text") or output["data"]["text/plain"] for output in outputs]
