"""The form of the code, measured: what a formatter cannot see, in numbers and places.

``python tests/code_form.py`` prints the numbers of every folder and the places that break a rule;
``python tests/code_form.py nnunet_dro/sampling`` does so for one folder. `test_form.py` holds the
bounds. The numbers are symptoms: a page that is easy to read has them, not the other way around.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: The folders whose code has to have the form. Tests are measured by their statements alone.
FOLDERS = ("nnunet_dro", "experiments", "benchmarks", "docs")

#: Names that say nothing of what they hold.
EMPTY_NAMES = {"found", "one", "known", "of", "given"}

#: Methods that change their object: a value that comes of one is not named on the way.
CHANGES = {"setdefault", "pop", "popitem", "append", "add", "update", "write", "read", "readline"}

#: Most local names of a function: more cannot be kept in mind.
MOST_LOCAL_NAMES = 15

type_of_function = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Form:
    """The numbers of some modules."""

    lines: int
    statements: int
    docstrings: int
    nodes_per_line: float
    conditional_expressions: int
    packed_assignments: int

    @property
    def conditional_expressions_per_1000_lines(self) -> float:
        """Conditional expressions (``a if b else c``) on 1,000 lines of a module."""
        return 1000 * self.conditional_expressions / max(1, self.lines)


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(tree: ast.AST) -> list[ast.AST]:
    """Every node of a syntax tree; to walk takes longer than to look at what was met."""
    return list(ast.walk(tree))


def modules_below(*folders: Path) -> list[Path]:
    """The modules of some folders, or those files themselves."""
    modules = []
    for folder in folders:
        modules += [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
    return modules


def n_statements(tree: ast.AST) -> int:
    """How many statements there are, docstrings not counted: they are no ideas of the code."""
    nodes = nodes_of(tree)
    return sum(isinstance(node, ast.stmt) for node in nodes) - sum(map(_has_docstring, nodes))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method, those inside of others, too."""
    for node in nodes_of(tree):
        if isinstance(node, type_of_function):
            yield node


def measure(modules: list[Path]) -> Form:
    """The numbers of some modules together."""
    lines = statements = docstrings = nodes = lines_of_bodies = conditional = packed = 0
    for path in modules:
        tree = parsed(path)
        lines += len(path.read_text(encoding="utf-8").splitlines())
        statements += n_statements(tree)
        docstrings += sum(map(_has_docstring, nodes_of(tree)))
        conditional += sum(isinstance(node, ast.IfExp) for node in nodes_of(tree))
        packed += sum(isinstance(node, ast.Assign) and _is_packed(node) for node in nodes_of(tree))
        for function in _outermost_functions(tree):
            body = function.body[_has_docstring(function) :]
            if body:
                nodes += sum(1 for statement in body for _ in ast.walk(statement))
                lines_of_bodies += body[-1].end_lineno - body[0].lineno + 1
    return Form(
        lines=lines,
        statements=statements,
        docstrings=docstrings,
        nodes_per_line=nodes / max(1, lines_of_bodies),
        conditional_expressions=conditional,
        packed_assignments=packed,
    )


def faults(path: Path) -> list[str]:
    """The places of a module that break a rule, as ``file:line: what``."""
    tree = parsed(path)
    places: list[tuple[int, str]] = []
    in_tests = {id(node) for test in _tests_of_branches(tree) for node in ast.walk(test)}
    in_comprehensions = {
        id(node)
        for comprehension in nodes_of(tree)
        if isinstance(comprehension, ast.comprehension)
        for condition in comprehension.ifs
        for node in ast.walk(condition)
    }
    for node in nodes_of(tree):
        places += _faults_of_names(node)
        places += _faults_of_conditional_expressions(node)
        if isinstance(node, ast.Assign) and _is_packed(node):
            places.append((node.lineno, "unrelated targets in one assignment"))
        if isinstance(node, ast.NamedExpr):
            if id(node) in in_comprehensions or id(node) not in in_tests:
                places.append((node.lineno, "a walrus outside of the test of an if or while"))
            if _changes_something(node.value):
                places.append((node.lineno, "a walrus whose value changes something"))
    for function in functions(tree):
        n_names = len(local_names(function))
        if n_names > MOST_LOCAL_NAMES:
            places.append((function.lineno, f"{function.name} has {n_names} local names"))
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    return [f"{name}:{line}: {what}" for line, what in sorted(places)]


def local_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names that a function binds itself, those of its parameters aside.

    Names of a comprehension, and of functions inside, do not count: they end with it.
    """
    names: set[str] = set()
    left: list[ast.AST] = list(function.body)
    while left:
        node = left.pop()
        if isinstance(node, (*type_of_function, ast.ClassDef)):
            names.add(node.name)
            continue
        if isinstance(
            node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
        ):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id != "_":
            names.add(node.id)
        left += ast.iter_child_nodes(node)
    return names


def _outermost_functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions that are inside of no other."""
    outermost = []
    left = list(ast.iter_child_nodes(tree))
    while left:
        node = left.pop()
        if isinstance(node, type_of_function):
            outermost.append(node)
        else:
            left += ast.iter_child_nodes(node)
    return outermost


def _has_docstring(node: ast.AST) -> bool:
    is_documented = isinstance(node, (*type_of_function, ast.ClassDef, ast.Module))
    return is_documented and ast.get_docstring(node, clean=False) is not None


def _is_packed(node: ast.Assign) -> bool:
    """Whether several names get values that have nothing to do with each other.

    Values that read one of the names (``a, b = b, a + b``) need to be assigned together.
    """
    (target, *_) = node.targets
    values = [node.value]
    if isinstance(node.value, ast.IfExp):
        values = [node.value.body, node.value.orelse]
    if not isinstance(target, ast.Tuple) or not all(
        isinstance(value, ast.Tuple) for value in values
    ):
        return False
    targets = {ast.unparse(item) for item in target.elts}
    read = {
        ast.unparse(item)
        for value in values
        for item in ast.walk(value)
        if isinstance(item, ast.expr)
    }
    return not targets & read


def _tests_of_branches(tree: ast.AST) -> Iterator[ast.expr]:
    for node in nodes_of(tree):
        if isinstance(node, (ast.If, ast.While)):
            yield node.test


def _changes_something(value: ast.expr) -> bool:
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
    return any(isinstance(call.func, ast.Attribute) and call.func.attr in CHANGES for call in calls)


def _faults_of_conditional_expressions(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Tuple) and any(isinstance(item, ast.IfExp) for item in node.elts):
        yield node.lineno, "a conditional expression inside a tuple"
    if isinstance(node, ast.Call) and node.lineno != node.end_lineno:
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if any(isinstance(argument, ast.IfExp) for argument in arguments):
            yield node.lineno, "a conditional expression among arguments on lines"


def _faults_of_names(node: ast.AST) -> Iterator[tuple[int, str]]:
    name = ""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        name = node.id
    elif isinstance(node, ast.arg):
        name = node.arg
    if name in EMPTY_NAMES or name.startswith("of_"):
        yield node.lineno, f"the name {name!r} does not say what it holds"
    if isinstance(node, ast.Subscript) and isinstance(getattr(node.slice, "value", None), int):
        calls = [
            ast.unparse(part.func) for part in ast.walk(node.value) if isinstance(part, ast.Call)
        ]
        if any(call.endswith("groupby") for call in calls):
            yield node.lineno, "a column of a frame is called by its number"


def main() -> None:
    """Print the numbers of each folder, then the places."""
    folders = [Path(name).resolve() for name in sys.argv[1:]]
    folders = folders or [ROOT / name for name in (*FOLDERS, "tests")]
    for folder in folders:
        form = measure(modules_below(folder))
        print(
            f"{folder.name}: {form.lines} lines, {form.statements} statements and "
            f"{form.docstrings} docstrings, {form.nodes_per_line:.2f} nodes on a line, "
            f"{form.conditional_expressions_per_1000_lines:.1f} conditional expressions per 1,000 "
            f"lines, {form.packed_assignments} packed assignments"
        )
    for path in modules_below(*(folder for folder in folders if folder.name != "tests")):
        for fault in faults(path):
            print(fault)


if __name__ == "__main__":
    main()
