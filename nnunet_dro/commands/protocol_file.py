"""A locked protocol: how results will be judged, written down before they are seen.

It says how cases will be evaluated and methods compared. The file is TOML. Its hash is that of the
options themselves, so that comments and line breaks do not matter, and it stands in every report
that was made with the protocol. It shows that options were not chosen afterwards to whoever knew
the hash before: publish it, or commit the file.
"""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from nnunet_dro.bad_input import InputError, bad_input
from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.comparing.options import SECTIONS, LockedComparison
from nnunet_dro.evaluation.inputs.flags import declared
from nnunet_dro.evaluation.inputs.options import LockedEvaluation
from nnunet_dro.evaluation.judging.outcomes import metric_meant
from nnunet_dro.evaluation.judging.requirements import (
    Requirement,
    parse_requirement,
    read_requirement,
)
from nnunet_dro.evaluation.judging.subjects import COMPARISON, STRATA
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.files.output_folder import check_new_file, replacing
from nnunet_dro.naming import name_some

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FORMAT = "nnunet-dro protocol 2"  # The name of the format; its number changes with the format.

#: That of version 0.3, which has neither a day nor a version.
EARLIER_FORMAT = "nnunet-dro protocol 1"

_HEAD = (
    "# A locked protocol of nnunet-dro: the options of evaluate and compare, decided before the "
    "results are seen.\n"
    "# An edited file is refused, because its hash does not fit. `nnunet-dro protocol write` makes "
    "another one.\n"
)


#: What protocols of version 0.2 lock besides. It has no effect: rows of other cases are always
#: allowed.
_RETIRED = {"ignore_unknown_cases"}

#: What the earlier format lacks, with the value that it stands for.
_ADDED: dict[str, dict[str, Any]] = {"evaluate": {"patient_score": "mean"}, "compare": {}}

_REWRITE = "Restore the file, or write another one with `nnunet-dro protocol write`."

_Result = TypeVar("_Result", Evaluation, Comparison)
_Locked = TypeVar("_Locked", LockedEvaluation, LockedComparison)


@dataclass(frozen=True)
class Protocol:
    """The options of evaluate and of compare, by their names at the command line."""

    evaluate: Mapping[str, Any]  # those of `LockedEvaluation`, with values as from `Flag.value`
    compare: Mapping[str, Any]  # those of `LockedComparison`
    written: str = ""  # the day on which it was written, as 2026-11-27; empty in `EARLIER_FORMAT`
    version: str = ""  # the version of nnunet-dro that wrote it; empty likewise

    def __post_init__(self) -> None:
        for name, section in self.sections.items():
            _check_names(name, section)
            options = _options(SECTIONS[name], section)
            if isinstance(options, LockedEvaluation):
                options.check()
        _ = self.requirements

    @property
    def requirements(self) -> list[Requirement]:
        """The requirements of both commands."""
        return [
            *(parse_requirement(text, STRATA) for text in self.evaluate["require"]),
            *(parse_requirement(text, COMPARISON) for text in self.compare["require"]),
        ]

    @property
    def sections(self) -> dict[str, Mapping[str, Any]]:
        """The options of both commands."""
        return {"evaluate": self.evaluate, "compare": self.compare}

    @property
    def head(self) -> dict[str, str]:
        """The format, and of the current one the day and the version."""
        if not self.written:
            return {"format": EARLIER_FORMAT}
        return {"format": FORMAT, "written": self.written, "version": self.version}

    @property
    def origin(self) -> str:
        """When and by what it was written, in words; empty where that is not known."""
        if not self.written:
            return ""
        return f" of {self.written} (nnunet-dro {self.version})"

    @property
    def sha256(self) -> str:
        """SHA-256 of all but itself, see `_digest`."""
        sections = {name: self._as_written(name, part) for name, part in self.sections.items()}
        return _digest(self.head | sections)

    @property
    def text(self) -> str:
        """The content of the file."""
        head = self.head | {"sha256": self.sha256}
        lines = [_HEAD, *(f"{name} = {_toml(value)}" for name, value in head.items())]
        for name, options in self.sections.items():
            lines += ["", f"[{name}]"]
            for option, value in self._as_written(name, options).items():
                lines.append(f"{option} = {_toml(value)}")
        return "\n".join(lines) + "\n"

    def _as_written(self, section: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a section that the file has: TOML has no None."""
        lacking = {} if self.written else _ADDED[section]
        return {
            name: value
            for name, value in options.items()
            if value is not None and value != lacking.get(name)
        }


def sorted_requirements(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Requirements on strata, and those on differences, by the statistic that they are about."""
    requirements = [read_requirement(text) for text in texts]
    on_strata = [entry.text for entry in requirements if entry.subject is STRATA]
    on_differences = [entry.text for entry in requirements if entry.subject is COMPARISON]
    return on_strata, on_differences


def write_protocol(protocol: Protocol, path: Path, *, force: bool = False) -> None:
    """Write a protocol, after a check that each of its requirements is about one of its metrics.

    With ``force``, it takes the place of an existing file.
    """
    metrics = _options(LockedEvaluation, protocol.evaluate).scoring.metrics
    for requirement in protocol.requirements:
        metric_meant(requirement, metrics)

    check_new_file(path, overwrite=force, name="protocol", option="--force")
    with replacing(path) as partial_file:
        partial_file.write_text(protocol.text, encoding="utf-8")


def read_protocol(path: Path) -> Protocol:
    """Read a protocol, and check that it is as it was written."""
    return protocol_of(_read_text(path), str(path))


def protocol_of(text: str, name: str) -> Protocol:
    """The protocol of the text of a file, and whether it is as it was written."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _no_toml(name, error) from error
    file_format = content.get("format")
    if file_format not in (FORMAT, EARLIER_FORMAT):
        raise InputError(
            "protocol",
            must=f"have the format {FORMAT!r}",
            got=f"{name!r} with {file_format!r}",
            cure=_REWRITE,
        )

    # With its hash, the values are those of options that were checked before they were written.
    sha256 = content.pop("sha256", None)
    if sha256 != _digest(content):
        raise InputError(
            "protocol",
            must="be as it was written",
            got=f"{name!r}, which was edited: its hash does not fit",
            cure=_REWRITE,
        )

    added = _ADDED if file_format == EARLIER_FORMAT else {}
    try:
        sections = {
            section: added.get(section, {}) | _filled(content[section], section)
            for section in SECTIONS
        }
        return Protocol(
            **sections, written=content.get("written", ""), version=content.get("version", "")
        )
    except ValueError as error:
        raise ValueError(
            f"`protocol` must be as it was written, got {name!r}: {error} {_REWRITE}"
        ) from error


def _read_text(path: Path) -> str:
    if not path.is_file():
        raise FileNotFoundError(
            bad_input(
                "protocol",
                must="be a file",
                got=f"{str(path)!r}, which is none",
                cure="Write one with `nnunet-dro protocol write`.",
            )
        )
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise _no_toml(str(path), error) from error


def _no_toml(name: str, error: ValueError) -> ValueError:
    return InputError("protocol", must="be TOML in UTF-8", got=f"{name!r}: {error}", cure=_REWRITE)


def under_protocol(result: _Result, path: Path) -> _Result:
    """An evaluation or a comparison that says under which protocol it was made.

    It says so in a note, and in its ``about``.
    """
    content = _read_text(path)
    protocol = protocol_of(content, str(path))
    sha256 = protocol.sha256
    verb = "Evaluated" if isinstance(result, Evaluation) else "Compared"
    note = f"{verb} under the locked protocol{protocol.origin} with SHA-256 {sha256}."
    # What is compared was evaluated under the same protocol, which is said once.
    others: list[str] = [text for text in result.notes if sha256 not in text]
    record = {"file": str(path), "sha256": sha256, "content": content}
    about = {**result.about, "protocol": record}
    return replace(result, notes=(note, *others), about=about)


def check_made_under(path: Path, evaluations: Mapping[str, Sequence[Evaluation]]) -> None:
    """Check that the evaluations of all trainings were made under a protocol."""
    sha256 = read_protocol(path).sha256
    for name, trainings in evaluations.items():
        for evaluation in trainings:
            theirs = evaluation.about.get("protocol", {}).get("sha256")
            if theirs == sha256:
                continue
            got = f"one under another, {theirs}," if theirs else "one without a protocol"
            raise InputError(
                "evaluations",
                must=f"be made under {str(path)!r}",
                got=f"{got} for {name!r}",
                cure=f"Evaluate again with --protocol {path}.",
            )


def _options(kind: type[_Locked], section: Mapping[str, Any]) -> _Locked:
    """The options of a section in the class that declares them, which checks them."""
    values = {entry.field: section[name] for name, entry in declared(kind).items()}
    return kind(**values)


def _check_names(name: str, options: Mapping[str, Any]) -> None:
    """Check that a section has its options, and no others."""
    names = declared(SECTIONS[name])
    others = (set(options) - _RETIRED) ^ set(names)
    if others:
        raise InputError(
            name,
            must=f"have the options {', '.join(names)}",
            got=f"others or not all: {name_some(sorted(others))}",
        )


def _filled(options: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The options of a section, with None for those that are absent because they have no value."""
    kind = SECTIONS[section]
    absent = {
        name: None
        for name, entry in declared(kind).items()
        if getattr(kind, entry.field) is None and name not in options
    }
    return {**absent, **options}


def _digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the JSON of a file's content with sorted keys, without spaces."""
    text = json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str
    )
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _toml(value: Any) -> str:
    """A value as TOML writes it; its texts are escaped as in JSON, and one more character."""
    if isinstance(value, list) and len(value) > 1:
        items = [f"    {_toml(item)},\n" for item in value]
        return "[\n" + "".join(items) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
