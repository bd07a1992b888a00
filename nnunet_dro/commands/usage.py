"""How the commands start and stop.

Without words, `nnunet-dro` shows what one does with it. The help names every flag in full, and an
error is one line.
"""

import keyword
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from nnunet_dro.naming import plain

BAD_INPUT = 2
INTERRUPTED = 130

#: Where the context of a command has the options that its protocol locks, once they are checked.
LOCKED = "nnunet_dro.locked"

_FOLD = re.compile(r"\d+|all", re.ASCII)  # A fold as nnU-Net's commands take it.

#: An option to how words begin that people try in its place, and that no typing error explains.
_TRIED = {
    "--by": ("attribute", "cent", "column", "group", "site", "strata", "stratify", "stratum"),
    "--cases": ("csv", "metadata", "table"),
    "--dataset-json": ("json", "label"),
    "--force": ("overwrite", "replace"),
    "--group": ("patient", "subject"),
    "--jobs": ("cpu", "process", "thread"),
    "--overwrite": ("force", "replace"),
    "--patient": ("group", "subject"),
    "--stratify": ("by", "cent", "column", "strata", "stratum"),
}

#: The base of all errors of usage. Typer has them from click or, since version 0.27, from a copy of
#: its own.
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
       nnunet-dro compare plain=results/plain DRO=results/dro -o results/comparison
  5. Give the model to others, who need nnU-Net only
       nnunet-dro share MODEL_FOLDER -o model.zip

`nnunet-dro --help` lists all commands, `nnunet-dro COMMAND --help` explains one, \
and `nnunet-dro demo` shows all of it
on small images."""


def stop(message: str, code: int) -> None:
    """End the program with one line on standard error."""
    typer.echo(f"nnunet-dro: {plain(' '.join(message.split()))}", err=True)
    raise typer.Exit(code)


class Commands(TyperGroup):
    """Every command stops the same way.

    Bad input is one line and exit code 2, Ctrl-C is exit code 130.
    """

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
        except (ValueError, OSError, EOFError) as error:
            command = self.get_command(ctx, str(ctx.invoked_subcommand))
            stop(with_flags(str(error), command, ctx.meta.get(LOCKED, ())), BAD_INPUT)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands in groups, each with its whole first sentence."""
        rows = []
        for name, command in self.commands.items():
            if not command.hidden:
                rows.append((_panel(command, "Commands"), (name, _summary(command.help))))
        _write_panels(formatter, rows)


class CommandWithPanels(TyperCommand):
    """A command whose help has a panel for each kind of options.

    Every flag is shown whole, however narrow the terminal is.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words; several folds may follow one ``-f``, as in nnU-Net's commands."""
        if any("-f" in parameter.opts for parameter in self.params):
            args = _with_a_flag_per_fold(args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options."""
        rows = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record:
                default = "Arguments" if parameter.param_type_name == "argument" else "Options"
                rows.append((_panel(parameter, default), record))
        _write_panels(formatter, rows)


def _with_a_flag_per_fold(words: Iterable[str]) -> list[str]:
    """Words with ``-f 0 -f 1`` for ``-f 0 1``."""
    flags = ("--folds", "-f")
    written: list[str] = []
    for word in words:
        last = written[-1] if written else ""
        before_last = written[-2] if len(written) > 1 else ""
        if last in flags and word.startswith("-"):
            raise ValueError(
                f"`folds` must have a value, got {last} before {word!r}. Write, say, -f 0 1."
            )
        if before_last in flags and _FOLD.fullmatch(word):
            written.append("-f")
        written.append(word)
    return written


def _summary(text: str | None) -> str:
    """The first paragraph of a help, on one line."""
    paragraph = (text or "").split("\n\n")[0]
    return " ".join(paragraph.split())


def _panel(item: Any, default: str) -> str:
    # Typer has a placeholder where no panel is given.
    panel = getattr(item, "rich_help_panel", None)
    return panel if isinstance(panel, str) else default


def _write_panels(formatter: Any, rows: Iterable[tuple[str, tuple[str, str]]]) -> None:
    """Write rows of a name and its help below the names of their panels.

    The panels are in the order in which they first occur.
    """
    rows_by_panel: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for panel, row in rows:
        rows_by_panel[panel].append(row)
    for panel, rows_of_panel in rows_by_panel.items():
        with formatter.section(panel):
            formatter.write_dl(rows_of_panel)


def with_flags(message: str, command: Any, locked: Collection[str] = ()) -> str:
    """A message with the options as they are typed: ``--by`` for the parameter `by`.

    At its end it says which of them are among the ``locked`` ones: its cure may be to change them.
    """
    flags: dict[str, str] = {}
    for parameter in _parameters_of(command):
        if parameter.param_type_name == "option":
            flag = max(parameter.opts, key=len)
            flags[parameter.name] = flag
            if keyword.iskeyword(flag[2:]):  # --from, which no parameter can be called
                flags[flag[2:]] = flag

    def typed(match: re.Match[str]) -> str:
        name = match[1]
        return f"`{flags.get(name, name)}`"

    # Columns of a case table may have such names, too.
    message = re.sub(r"(?<!column )`(\w+)`", typed, message)
    fixed = [flags[name] for name in locked if name in flags and flags[name] in message]
    if fixed:
        message += f" The protocol locks {', '.join(fixed)}: to change that, write another one."
    return message


def _parameters_of(command: Any) -> list[Any]:
    """The parameters of a command and of its subcommands; none of no command."""
    if not command:
        return []
    parameters = list(command.params)
    for subcommand in getattr(command, "commands", {}).values():
        parameters += subcommand.params
    return parameters


def _name_what_is_meant(error: Any) -> None:
    """Let an error of an option that does not exist name those that its words are tried for."""
    words = re.split("[-_]+", getattr(error, "option_name", ""))
    parameters = error.ctx.command.params if error.ctx else []
    flags = {flag for parameter in parameters for flag in parameter.opts}
    meant = [
        flag
        for flag in sorted(flags & _TRIED.keys())
        if any(word.startswith(_TRIED[flag]) for word in words)
    ]
    error.possibilities = meant or getattr(error, "possibilities", None)


@contextmanager
def _one_line() -> Iterator[None]:
    """Turn an error of usage into one line that says where the command is explained."""
    try:
        yield
    except _UsageError as error:
        _name_what_is_meant(error)
        message: str = error.format_message()  # type: ignore[attr-defined]
        # With an enum, some versions of typer begin the reason so.
        message = message.replace("Value error, ", "")
        # Errors that a command raises itself say the cure, and know no context.
        ctx = getattr(error, "ctx", None)
        if ctx is not None:
            message = f"{message.rstrip('.')}. See `{ctx.command_path} --help`."
        stop(message, BAD_INPUT)
