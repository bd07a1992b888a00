"""Bad input is a value that says itself in one line, and survives the way to another process."""

import math
import pickle

import pytest

from nnunet_dro.bad_input import InputError, bad_input, check_number


def test_an_error_names_the_option_the_rule_what_was_given_and_the_cure():
    error = InputError("folds", must="be at least 2", got=1, cure="Give more folds.")

    assert str(error) == "`folds` must be at least 2, got 1. Give more folds."
    assert str(error) == bad_input("folds", "be at least 2", 1, "Give more folds.")


def test_a_column_is_told_from_an_option_and_needs_no_cure():
    error = InputError("age", must="have numbers", got="'old'", kind="column")

    assert str(error) == "column `age` must have numbers, got 'old'."


def test_an_error_is_the_same_in_another_process():
    error = InputError("age", must="have numbers", got="'old'", cure="Correct it.", kind="column")

    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    ("interval", "inside", "outside", "rule"),
    [
        ("[0, 1)", (0.0, 0.5), (-0.1, 1.0), "in [0, 1)"),
        ("(0, 1]", (1.0, 1e-9), (0.0, 1.1), "in (0, 1]"),
        ("[0, inf)", (0.0, 1e300), (-1e-9, math.inf), ">= 0"),
        ("(0, inf)", (1e-9,), (0.0, math.inf), "> 0"),
    ],
)
def test_a_number_is_held_against_its_interval(interval, inside, outside, rule):
    for value in inside:
        check_number("x", value, interval)
    for value in (*outside, math.nan):
        with pytest.raises(InputError) as error:
            check_number("x", value, interval, "Give another.")
        assert str(error.value) == f"`x` must be a number {rule}, got {value!r}. Give another."
