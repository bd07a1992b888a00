"""The option --protocol: a command takes its options from a locked protocol, and refuses others."""

from pathlib import Path
from typing import Annotated, Any

import typer

from nnunet_dro.commands.usage import Command
from nnunet_dro.evaluation.options import REQUIREMENTS, SECTIONS, declared

#: What a protocol does not lock and yet refuses: it has requirements itself, and comparisons are by what is evaluated.
REFUSED = ("require_file", "by")

_GIVEN = ("COMMANDLINE", "ENVIRONMENT")


def _take_defaults(ctx: typer.Context, path: Path | None) -> Path | None:
    """Make the protocol's options the defaults of those that follow."""
    if path is not None and not ctx.resilient_parsing:
        from nnunet_dro.commands.protocol_file import read_protocol

        options = read_protocol(path).sections[str(ctx.info_name)]
        flags = declared(SECTIONS[str(ctx.info_name)])
        ctx.default_map = {
            name: ",".join(value) if name in flags and flags[name].flag.has_commas else value
            for name, value in options.items()
            if value is not None
        }
    return path


ProtocolFile = Annotated[
    Path | None,
    typer.Option(
        "--protocol",
        help="Locked protocol, from `protocol write`; other options than it has are refused.",
        readable=False,
        is_eager=True,
        rich_help_panel=REQUIREMENTS,
        callback=_take_defaults,
    ),
]


class LockedCommand(Command):
    """A command whose options are those of the protocol, if it is given one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, then refuse options that differ from the protocol.

        Raises:
            ValueError: If an option is given that the protocol has with another value, or does not have.
        """
        rest = super().parse_args(ctx, args)
        path = ctx.params.get("protocol")
        if path is not None and not ctx.resilient_parsing:
            from nnunet_dro.commands.protocol_file import read_protocol

            locked = read_protocol(Path(path)).sections[str(ctx.info_name)]
            flags = {name: one.flag for name, one in declared(SECTIONS[str(ctx.info_name)]).items()}
            for name, value in ctx.params.items():
                source = ctx.get_parameter_source(name)
                if name not in (*flags, *REFUSED) or source is None or source.name not in _GIVEN:
                    continue
                given = flags[name].value(value) if name in flags else value
                if given != locked.get(name):
                    must = "be left out" if locked.get(name) is None else f"be {_shown(locked[name])}"
                    cure = "Leave the option out, or write another protocol."
                    raise ValueError(f"`{name}` must {must}, as locked in {str(path)!r}, got {_shown(given)}. {cure}")
        return rest


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(repr(item) for item in value) or "left out"
    return repr(str(value)) if isinstance(value, Path) else repr(value)
