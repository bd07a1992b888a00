"""A locked protocol: how cases will be evaluated and methods compared, written down before the results are seen.

The file is TOML. Its hash is that of the options themselves, so that comments and line breaks do
not matter, and it stands in every report that was made with the protocol. It shows that options
were not chosen afterwards to whoever knew the hash before: publish it, or commit the file.
"""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.judging.outcomes import metric_meant
from nnunet_dro.evaluation.judging.requirements import COMPARISON, STRATA, parse_requirement
from nnunet_dro.evaluation.options import SECTIONS, LockedEvaluation, declared
from nnunet_dro.files.output_folder import check_new_file, replacing
from nnunet_dro.naming import name_some

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FORMAT = "nnunet-dro protocol 1"  # The name of the format; its number changes with the format.

_HEAD = """\
# A locked protocol of nnunet-dro: the options of evaluate and compare, decided before the results are seen.
# An edited file is refused, because its hash does not fit. `nnunet-dro protocol write` makes another one.
"""


def _kinds(hint: Any) -> tuple[type | None, ...]:
    """The types that an option of a type may have in a protocol.

    None for one that may be absent.
    """
    if isinstance(hint, UnionType):
        return tuple(None if one is NoneType else one for one in get_args(hint))
    return (list if get_origin(hint) is Sequence else str if issubclass(hint, Enum) else hint,)


#: Section to option to the types it may have.
_OPTIONS = {
    key: {name: _kinds(one.hint) for name, one in declared(part).items()}
    for key, part in SECTIONS.items()
}

#: What protocols of version 0.2 lock besides. It has no effect: rows of other cases are always
#: allowed.
_RETIRED = {"ignore_unknown_cases": (bool,)}

_REWRITE = "Restore the file, or write another one with `nnunet-dro protocol write`."

_Result = TypeVar("_Result", Evaluation, Comparison)


@dataclass(frozen=True)
class Protocol:
    """The options of `nnunet-dro evaluate` and `nnunet-dro compare`, by their names at the command line."""

    evaluate: Mapping[str, Any]  # those of `LockedEvaluation`, with values as from `Flag.value`
    compare: Mapping[str, Any]  # those of `LockedComparison`

    def __post_init__(self) -> None:
        for name, section in self.sections.items():
            _check_section(name, section)
            known = declared(SECTIONS[name])
            options = SECTIONS[name](
                **{one.field: section[option] for option, one in known.items()}
            )
            if isinstance(options, LockedEvaluation):
                options.check()
        for text in self.evaluate["require"]:
            parse_requirement(text)
        for text in self.compare["require"]:
            parse_requirement(text, COMPARISON)

    @property
    def sections(self) -> dict[str, Mapping[str, Any]]:
        """The options of both commands."""
        return {"evaluate": self.evaluate, "compare": self.compare}

    @property
    def sha256(self) -> str:
        """SHA-256 of the options: of their JSON with sorted keys, without spaces."""
        content = {
            "format": FORMAT,
            **{name: _present(options) for name, options in self.sections.items()},
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    @property
    def text(self) -> str:
        """The content of the file."""
        lines = [_HEAD, f'format = "{FORMAT}"', f'sha256 = "{self.sha256}"']
        for name, options in self.sections.items():
            lines += [
                "",
                f"[{name}]",
                *(f"{option} = {_toml(value)}" for option, value in _present(options).items()),
            ]
        return "\n".join(lines) + "\n"


def sorted_requirements(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Requirements on strata, and those on differences: by the statistic that they are about."""
    of_strata = []
    of_comparison = []
    for text in texts:
        try:
            parse_requirement(text, STRATA)
            of_strata.append(text.strip())
        except ValueError as error:
            try:
                parse_requirement(text, COMPARISON)
            except ValueError as other:
                raise (other if "_difference" in text else error) from None
            of_comparison.append(text.strip())
    return of_strata, of_comparison


def write_protocol(protocol: Protocol, path: Path, *, force: bool = False) -> None:
    """Write a protocol, whose requirements can be meant.

    With ``force`` in place of an existing file.
    """
    locked = LockedEvaluation(
        **{one.field: protocol.evaluate[key] for key, one in declared(LockedEvaluation).items()}
    )
    for options, subject in ((protocol.evaluate, STRATA), (protocol.compare, COMPARISON)):
        for text in options["require"]:
            metric_meant(parse_requirement(text, subject), locked.scoring.metrics)
    check_new_file(path, overwrite=force, name="protocol", option="--force")
    with replacing(path) as new:
        new.write_text(protocol.text, encoding="utf-8")


def read_protocol(path: Path) -> Protocol:
    """Read a protocol, and check that it is as it was written."""
    if not path.is_file():
        cure = "Write one with `nnunet-dro protocol write`."
        raise FileNotFoundError(
            f"`protocol` must be a file, got {str(path)!r}, which is none. {cure}"
        )
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(
            f"`protocol` must be TOML in UTF-8, got {str(path)!r}: {error}. {_REWRITE}"
        ) from error
    if content.get("format") != FORMAT:
        got = f"{str(path)!r} with {content.get('format')!r}"
        raise ValueError(f"`protocol` must have the format {FORMAT!r}, got {got}. {_REWRITE}")
    try:
        protocol = Protocol(
            *(_filled(content.get(name), known) for name, known in _OPTIONS.items())
        )
    except ValueError as error:
        raise ValueError(
            f"`protocol` must be as it was written, got {str(path)!r}: {error} {_REWRITE}"
        ) from error
    others = sorted(set(content) - {"format", "sha256", *_OPTIONS})
    if others or content.get("sha256") != protocol.sha256:
        got = f"{str(path)!r}, which was edited"
        raise ValueError(
            f"`protocol` must be as it was written, got {got}: its hash does not fit. {_REWRITE}"
        )
    return protocol


def under_protocol(result: _Result, path: Path) -> _Result:
    """An evaluation or a comparison that says under which protocol it was made.

    A note, and in its ``about``.
    """
    done = "Evaluated" if isinstance(result, Evaluation) else "Compared"
    sha256 = read_protocol(path).sha256
    note = f"{done} under the locked protocol with SHA-256 {sha256}."
    about = {**result.about, "protocol": {"file": str(path), "sha256": sha256}}
    return replace(result, notes=(note, *result.notes), about=about)


def check_made_under(path: Path, evaluations: Mapping[str, Sequence[Evaluation]]) -> None:
    """Check that the evaluations of all trainings were made under a protocol."""
    protocol = read_protocol(path)
    for name, evaluation in ((name, one) for name, own in evaluations.items() for one in own):
        theirs = evaluation.about.get("protocol", {}).get("sha256")
        if theirs != protocol.sha256:
            got = f"one under another, {theirs}," if theirs else "one without a protocol"
            cure = f"Evaluate again with --protocol {path}."
            raise ValueError(
                f"`evaluations` must be made under {str(path)!r}, got {got} for {name!r}. {cure}"
            )


def _check_section(name: str, options: Mapping[str, Any]) -> None:
    known = _OPTIONS[name]
    if others := (set(options) - set(_RETIRED)) ^ set(known):
        names = name_some(sorted(others))
        raise ValueError(
            f"`{name}` must have the options {', '.join(known)}, got others or not all: {names}."
        )
    for option, value in options.items():
        kinds = (known | _RETIRED)[option]
        are_texts = not isinstance(value, list) or all(isinstance(item, str) for item in value)
        if value is not None and not (type(value) in kinds and are_texts):
            raise ValueError(f"`{option}` must be {_kind(kinds)} in [{name}], got {value!r}.")
    for option in ("bootstrap", "seed"):
        if options[option] < 0:
            raise ValueError(f"`{option}` must be at least 0 in [{name}], got {options[option]!r}.")


def _kind(kinds: tuple[type | None, ...]) -> str:
    words = {
        list: "a list of texts",
        bool: "true or false",
        str: "a text",
        float: "a number",
        int: "a whole number",
    }
    return " or ".join(words[kind] if kind else "absent" for kind in kinds)


def _filled(options: Any, known: Mapping[str, tuple[type | None, ...]]) -> dict[str, Any]:
    """The options of a section, with None for those that may be absent and are."""
    given = dict(options) if isinstance(options, dict) else {}
    return {
        name: None for name, kinds in known.items() if None in kinds and name not in given
    } | given


def _present(options: Mapping[str, Any]) -> dict[str, Any]:
    """TOML has no None."""
    return {name: value for name, value in options.items() if value is not None}


def _toml(value: Any) -> str:
    """A value as TOML writes it; its texts are escaped as in JSON, and one more character."""
    if isinstance(value, list) and len(value) > 1:
        return "[\n" + "".join(f"    {_toml(item)},\n" for item in value) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
