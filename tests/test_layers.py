"""Imports run one way: between the rooms of the package, and between the modules of each."""

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: What every room may import, as long as it imports no other room: modules beside the rooms, and
#: the files.
SHARED = {"arrays", "bad_input", "choices", "files", "fingerprints", "naming", "progress_bar"}

#: Room to the rooms that it may import, `SHARED` ones aside. Rooms that are not named here are a
#: mistake.
MAY_IMPORT = {
    "sampling": set(),
    "losses": set(),
    "nnunet": set(),
    "pages": set(),
    "trainers": {"sampling", "losses", "nnunet"},
    "evaluation": {"nnunet", "pages"},
    "demo": {"nnunet", "evaluation", "pages", "trainers"},
    "inspection": {"sampling", "losses", "nnunet", "evaluation", "pages", "trainers"},
    "ranking": {"nnunet", "evaluation", "pages"},
    "exploration": {"evaluation", "pages"},
    "tuning": {"nnunet", "evaluation", "pages", "trainers"},
    "selfcheck": {"evaluation", "sampling"},
    "model_folders": {"nnunet", "trainers"},
    "viewer": {"evaluation", "nnunet", "pages"},
    "commands": {
        *(
            "demo",
            "evaluation",
            "exploration",
            "inspection",
            "model_folders",
            "nnunet",
            "pages",
            "ranking",
        ),
        *("selfcheck", "trainers", "tuning", "viewer"),
    },
    "cli": {"commands"},
    "experiments": {
        *(
            "demo",
            "evaluation",
            "inspection",
            "losses",
            "model_folders",
            "nnunet",
            "pages",
            "sampling",
        ),
        *("trainers", "tuning"),
    },
    "benchmarks": {
        "evaluation",
        "exploration",
        "losses",
        "nnunet",
        "ranking",
        "sampling",
        "trainers",
    },
}

#: Rooms of trainers that need more than a rule. Nothing imports them; the registry does by name,
#: when asked for one.
ROOMS_OF_TRAINERS = ("nnunet_dro.trainers.gils.", "nnunet_dro.trainers.l2rw.")

#: The rooms of the evaluation, in the order in which they may import what stands before.
EVALUATION = (
    "scoring",
    "inputs",
    "stratifying",
    "statistics",
    "judging",
    "comparing",
    "evaluating",
    "report",
)

#: Most pairs of them of which one imports the other.
MOST_ARROWS = 28

#: What the families of experiments share.
SHARED_BY_EXPERIMENTS = {
    "nnunet_runs",
    "datasets",
    "record",
    "curves",
    "spoilt_labels",
    "factorial",
    "device",
}

#: Module, imported in a process of its own, to what must not come with it: it would be slow or drag
#: in a layer above.
HEAVY = {
    "nnunet_dro": ("numpy", "torch", "nnunetv2"),
    "nnunet_dro.cli": ("numpy", "torch", "nnunetv2", "pandas", "matplotlib", "nibabel", "optuna"),
    "nnunet_dro.sampling": ("torch", "nnunetv2", "pandas"),
    "nnunet_dro.losses": ("nnunetv2", "pandas"),
    "nnunet_dro.trainers.installation": ("torch", "nnunetv2"),
    "nnunet_dro.trainers.registry": ("nnunet_dro.trainers.gils", "nnunet_dro.trainers.l2rw"),
    "nnunet_dro.nnunet": ("torch", "nnunetv2"),
    "nnunet_dro.pages": ("torch", "nnunetv2"),
    "nnunet_dro.evaluation.evaluating.evaluation": ("torch", "nnunetv2", "SimpleITK"),
    "nnunet_dro.evaluation.report": (
        "torch",
        "nnunetv2",
        "SimpleITK",
        "matplotlib",
        "PIL",
        "scipy",
    ),
    "nnunet_dro.ranking": ("numpy", "torch", "nnunetv2", "pandas"),
    "nnunet_dro.ranking.page": ("torch", "nnunetv2"),
    "nnunet_dro.exploration": ("numpy", "torch", "nnunetv2", "pandas"),
    "nnunet_dro.exploration.page": ("torch", "nnunetv2"),
    "nnunet_dro.inspection.suspects": ("torch", "nnunetv2"),
    "nnunet_dro.viewer": ("torch", "nnunetv2", "scipy"),
    "nnunet_dro.inspection.doctor": ("torch", "nnunetv2"),
    "nnunet_dro.tuning": ("optuna", "plotly", "numpy", "torch", "nnunetv2", "pandas"),
}

#: Most lines and words of the README, and most lines of a page below docs: nobody reads more at
#: once.
MOST_LINES_OF_README = 75
MOST_WORDS_OF_README = 600
MOST_LINES_OF_A_PAGE = 250

#: Most characters of the name of a test.
MOST_OF_A_NAME = 70


@cache
def modules() -> dict[str, Path]:
    """Every module of the package, the experiments and the benchmarks, by its dotted name."""
    paths = sorted(
        path
        for top in ("nnunet_dro", "experiments", "benchmarks")
        for path in (ROOT / top).rglob("*.py")
    )
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
    }


@cache
def imports(module: str) -> frozenset[str]:
    """Our modules that a module imports, wherever in its text, those for type checkers too."""
    tree = ast.parse(modules()[module].read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {_module_of(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} must import by full names"
            found |= {_module_of(f"{node.module}.{alias.name}") for alias in node.names}
    return frozenset(name for name in found if name is not None and name != module)


def _module_of(name: str) -> str | None:
    """The module that a dotted name is, or is in; None if it is not one of ours."""
    while name not in modules():
        if "." not in name:
            return None
        name = name.rpartition(".")[0]
    return name


def room(module: str) -> str:
    """The part of the project a module belongs to; '' for the package itself."""
    top, *rest = module.split(".")
    return top if top != "nnunet_dro" else rest[0] if rest else ""


def test_every_room_is_known_and_their_order_has_no_circle():
    assert {room(module) for module in modules()} == {"", *SHARED, *MAY_IMPORT}
    TopologicalSorter(MAY_IMPORT).prepare()


def test_rooms_import_only_what_is_below_them():
    upward = [
        f"{module} imports {other}"
        for module in modules()
        for other in imports(module)
        if room(other) not in {"", room(module), *SHARED, *MAY_IMPORT.get(room(module), set())}
    ]
    assert upward == []


def test_nobody_imports_a_trainer_that_has_a_room():
    found = [
        f"{module} imports {other}"
        for module in modules()
        for other in imports(module)
        for home in ROOMS_OF_TRAINERS
        if module.startswith("nnunet_dro.")
        and other.startswith(home)
        and not module.startswith(home)
    ]
    assert found == []


def test_rooms_of_the_evaluation_import_only_those_before_them():
    inside = [module for module in modules() if module.startswith("nnunet_dro.evaluation.")]
    assert {module.split(".")[2] for module in inside} == set(EVALUATION)

    arrows = set()
    for module in inside:
        for other in imports(module).intersection(inside):
            arrows.add((module.split(".")[2], other.split(".")[2]))
    apart = [(above, below) for above, below in arrows if above != below]
    upward = [pair for pair in apart if EVALUATION.index(pair[0]) < EVALUATION.index(pair[1])]

    assert upward == []
    assert len(apart) <= MOST_ARROWS


def test_modules_import_each_other_in_no_circle():
    graph = {
        module: {other for other in imports(module) if not module.startswith(f"{other}.")}
        for module in modules()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_families_of_experiments_do_not_import_each_other():
    for module in modules():
        mine = module.split(".")[1:2]
        for other in imports(module) if mine and room(module) == "experiments" else ():
            theirs = other.split(".")[1:2]
            if room(other) == "experiments" and theirs and theirs[0] not in SHARED_BY_EXPERIMENTS:
                assert theirs == mine, f"{module} imports {other}"


def test_pages_are_as_short_as_one_reads_at_once():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.count("\n") <= MOST_LINES_OF_README
    assert len(readme.split()) <= MOST_WORDS_OF_README

    pages = (ROOT / "docs").rglob("*.md")
    lines = {page.name: page.read_text(encoding="utf-8").count("\n") for page in pages}
    assert {name: n for name, n in lines.items() if n > MOST_LINES_OF_A_PAGE} == {}


@pytest.mark.parametrize("module", HEAVY)
def test_an_import_is_light(module):
    # To look for garbage, now or at the end, takes a third of the time.
    program = (
        f"import gc, os, sys; gc.disable(); import {module}; "
        "print(*sys.modules, flush=True); os._exit(0)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert not set(result.stdout.split()) & set(HEAVY[module])


def test_no_name_of_a_test_is_longer_than_a_line_can_show():
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    assert [
        name
        for page in pages
        for name in re.findall(r"def (test_\w+)", page)
        if len(name) > MOST_OF_A_NAME
    ] == []


@pytest.mark.parametrize(
    "path", sorted((ROOT / "nnunet_dro" / "commands").glob("*.py")), ids=lambda path: path.stem
)
def test_a_command_takes_its_options_as_one_object(path):
    functions = {
        one.name: one
        for one in ast.parse(path.read_text()).body
        if isinstance(one, ast.FunctionDef)
    }
    if command := functions.get(path.stem):
        assert len(command.args.args + command.args.kwonlyargs) <= 3
