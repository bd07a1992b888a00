"""How the commands start and stop: what is shown without words, and errors as one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

BAD_INPUT, INTERRUPTED = 2, 130

#: The base of all errors of usage. Typer has them from click or, since version 0.27, from a copy of its own.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

#: What `nnunet-dro` shows without words: what one does with it, in the order of a project.
START = """\
nnU-Net v2, trained and evaluated for its hardest patients. In the order of a project:

  1. Ask a finished plain training whether robust training would help
       nnunet-dro doctor FOLD_FOLDER
  2. Train with nnU-Net's own command, and predict as always
       nnUNetv2_train DATASET CONFIGURATION FOLD -tr nnUNetTrainerDRO
  3. Evaluate predictions per centre, pathology or whatever you know of the cases
       nnunet-dro evaluate labelsTs predictions/dro -o results/dro --cases cases.csv --by centre
  4. Compare methods case by case, with intervals
       nnunet-dro compare ERM=results/erm DRO=results/dro -o results/comparison
  5. Give the model to others, who need nnU-Net only
       nnunet-dro share MODEL_FOLDER -o model.zip

`nnunet-dro --help` lists all commands, `nnunet-dro COMMAND --help` explains one, and `nnunet-dro demo` shows all of it
on small images."""


def stop(message: str, code: int) -> None:
    """End the program with one line on standard error.

    Raises:
        typer.Exit: Always.
    """
    typer.echo(f"nnunet-dro: {' '.join(message.split())}", err=True)
    raise typer.Exit(code)


class Commands(TyperGroup):
    """Every command stops the same way: bad input is one line and exit code 2, Ctrl-C is exit code 130."""

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """Read the words; those that are wrong end in one line."""
        with _one_line():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            with _one_line():
                return super().invoke(ctx)
        except KeyboardInterrupt as error:
            stop(str(error) or "interrupted", INTERRUPTED)
        except BrokenPipeError:
            # Whoever read the output has closed it; typer ends quietly.
            raise
        except (ValueError, OSError) as error:
            stop(str(error), BAD_INPUT)


@contextmanager
def _one_line() -> Iterator[None]:
    """Turn an error of usage into one line that says where the command is explained."""
    try:
        yield
    except _UsageError as error:
        message: str = error.format_message()  # type: ignore[attr-defined]
        ctx = getattr(error, "ctx", None)
        # Those that a command raises itself say the cure, and know no context.
        stop(message if ctx is None else f"{message.rstrip('.')}. See `{ctx.command_path} --help`.", BAD_INPUT)
