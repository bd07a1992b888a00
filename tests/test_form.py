"""The code is written to be read: few ideas on a line, in a function and in a module.

The bounds count statements, which packing cannot meet, and what packing makes: syntax nodes on a
line, conditional expressions, unrelated targets in one assignment. lineax, fairlearn, panoptica and
MIST have 5.5 to 7.6 nodes on a line and 1 to 11 conditional expressions per 1,000 lines.
"""

import ast
from collections import defaultdict

import pytest

from tests.code_form import (
    FOLDERS,
    ROOT,
    faults,
    functions,
    measure,
    modules_below,
    n_statements,
    parsed,
)
from tests.conftest import LONG_FILES

#: Most statements by folder, docstrings not counted. A ratchet: who needs room finds it here first,
#: and where much of a bound is unused, it is lowered. Taking packed lines apart cost a third more
#: statements for a tenth more syntax nodes, so these bounds are as loose as today's code: ideas have
#: to go before they can fall.
MOST_STATEMENTS = {"nnunet_dro": 25_333, "tests": 25_009, "experiments": 5_250}
#: Most statements of a module, and of a function: more are two things.
MOST_STATEMENTS_OF_A_MODULE = 220
MOST_STATEMENTS_OF_A_FUNCTION = 40
#: Most lines of a function of the package, its docstring among them: more do not fit on a screen.
MOST_LINES_OF_A_FUNCTION = 60
#: The functions with more: what `summarise` takes and returns takes 48 lines to say.
LONG_FUNCTIONS = ["summarise"]
#: Most lines of a module. Lines do not measure size; a file that long is hard to find one's way in.
MOST_LINES_OF_A_MODULE = 400

#: Most of what packing makes, in the package. Sentences that moved into templates had few nodes on
#: their lines, so that the mean of the others rose from 8.9.
MOST_NODES_ON_A_LINE = 9.1
MOST_CONDITIONAL_EXPRESSIONS_PER_1000_LINES = 20

CODE = [path for folder in FOLDERS for path in modules_below(ROOT / folder)]


@pytest.mark.parametrize("folder", MOST_STATEMENTS)
def test_a_folder_has_no_more_statements_than_it_needs(folder):
    assert measure(modules_below(ROOT / folder)).statements <= MOST_STATEMENTS[folder]


def test_the_package_has_few_ideas_on_a_line():
    form = measure(modules_below(ROOT / "nnunet_dro"))

    assert form.nodes_per_line <= MOST_NODES_ON_A_LINE
    assert (
        form.conditional_expressions_per_1000_lines <= MOST_CONDITIONAL_EXPRESSIONS_PER_1000_LINES
    )


def test_the_files_that_make_test_fast_leaves_out_exist():
    assert [name for name in LONG_FILES if not (ROOT / "tests" / name).is_file()] == []


def test_no_module_is_two_things():
    statements = {path: n_statements(parsed(path)) for path in CODE}
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in CODE}

    assert {path: n for path, n in statements.items() if n > MOST_STATEMENTS_OF_A_MODULE} == {}
    assert {path: n for path, n in lines.items() if n > MOST_LINES_OF_A_MODULE} == {}


def test_no_function_is_two_things():
    too_long = [
        f"{path}:{function.lineno} {function.name}"
        for path in CODE
        for function in functions(parsed(path))
        if n_statements(function) - 1 > MOST_STATEMENTS_OF_A_FUNCTION
    ]
    assert too_long == []


def test_a_function_fits_on_a_screen():
    too_long = [
        function.name
        for path in modules_below(ROOT / "nnunet_dro")
        for function in functions(parsed(path))
        if function.end_lineno - function.lineno + 1 > MOST_LINES_OF_A_FUNCTION
    ]
    assert too_long == LONG_FUNCTIONS


def test_a_public_name_stands_for_one_thing():
    # Functions of the command line are named as their commands, and so as what these run.
    of_commands = {"compare", "evaluate", "selfcheck", "share", "strata"}

    places = defaultdict(list)
    for path in modules_below(ROOT / "nnunet_dro"):
        for node in parsed(path).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name[0] != "_":
                places[node.name].append(str(path))

    several = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert several.keys() == of_commands, several


def test_nothing_is_packed_and_every_name_says_what_it_holds():
    assert [fault for path in CODE for fault in faults(path)] == []


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("a, b = f(), 1 if c else 2", "unrelated targets"),
        ("a, b = (f(), 1) if c else (2, 3)", "unrelated targets"),
        ("g = [y for x in z if (y := f(x))]", "a walrus outside"),
        ("print(n := 3)", "a walrus outside"),
        ("if (n := stack.pop()): f(n)", "changes something"),
        ("g = (1 if c else 2, 3)", "inside a tuple"),
        ("f(\n    1 if c else 2,\n    3,\n)", "among arguments"),
        ("for one in cases: f(one)", "does not say"),
        ("def f(of_case): pass", "does not say"),
        ("t = frame.groupby('case')[4]", "by its number"),
        ("def f():\n" + "".join(f"    name_{n} = {n}\n" for n in range(16)), "16 local names"),
    ],
)
def test_a_fault_is_seen(code, fault, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(code)

    assert any(fault in line for line in faults(path))


@pytest.mark.parametrize(
    "code",
    [
        "a, b = b, a + b",
        "low, high = interval(values)",
        "if (match := pattern.search(text)): f(match)",
        "f(1 if c else 2)",
        "t = frame.groupby('case')['dice']",
    ],
)
def test_what_is_plain_is_no_fault(code, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(code)

    assert faults(path) == []
