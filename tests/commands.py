"""The commands, run in this process, and how they must end."""

from functools import cache

import typer.testing

from nnunet_dro.cli import app

# Otherwise the parsers of all commands are made anew for each run, which takes longer than most.
typer.testing._get_command = cache(typer.testing._get_command)


def run(*words):
    """Run a command, whatever becomes of it."""
    return typer.testing.CliRunner().invoke(app, [str(word) for word in words])


def done(result, code=0):
    """The result of a command that must end with this exit code."""
    assert result.exit_code == code, result.output
    return result


def refused(result, *words):
    """The one line of an error, which must have these words."""
    assert not done(result, 2).stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith("nnunet-dro: ")
    for word in words:
        assert str(word) in line
    return line
