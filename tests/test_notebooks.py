"""Every notebook runs from its first cell to its last, and shows what it says."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

pytestmark = pytest.mark.slow


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
