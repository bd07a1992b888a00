"""Small changes of the code, made in this process and undone."""

import inspect
import sys
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from importlib import import_module


@dataclass(frozen=True)
class Mutation:
    """A change of the source of a function: ``before``, which it has once, becomes ``after``."""

    name: str
    function: str  # ``module:function`` or ``module:Class.function``, the module in `evaluation`
    before: str
    after: str
    caught_by: str  # a part of the name of a number that has to be wrong then


@contextmanager
def mutated(mutation):
    """Change a function everywhere it is used."""
    module_name, _, path = mutation.function.partition(":")
    module = import_module(f"nnunet_dro.evaluation.{module_name}")
    *owners, name = path.split(".")
    owner = reduce(getattr, owners, module)
    original = vars(owner)[name]

    function = original
    for wrapper in ("fget", "func", "__func__", "__wrapped__"):
        function = getattr(function, wrapper, function)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(mutation.before) == 1, mutation
    changed = source.replace(mutation.before, mutation.after)
    made = {}
    exec(compile(changed, module.__file__, "exec"), vars(module), made)
    value = made[name]
    if hasattr(value, "__set_name__"):
        value.__set_name__(owner, name)

    with replaced(owner, name, original, value):
        yield


@contextmanager
def replaced(owner, name, original, value):
    """Set a value where it is defined and in every module that has taken it from there."""
    places = [(owner, name)]
    for other in list(sys.modules.values()):
        if other is not owner and getattr(other, "__name__", "").startswith("nnunet_dro"):
            places += [(other, key) for key, used in vars(other).items() if used is original]

    for place, key in places:
        setattr(place, key, value)
    forget()
    try:
        yield
    finally:
        for place, key in places:
            setattr(place, key, original)
        forget()


def forget():
    """Forget the results that functions have kept."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("nnunet_dro.evaluation"):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
