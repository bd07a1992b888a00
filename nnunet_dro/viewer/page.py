"""cases.html: the page with the viewer, its script and the volumes of the cases."""

import base64
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.report.gallery import Choice, by_urgency, score_text, worst_with_files
from nnunet_dro.files.json_file import read_json
from nnunet_dro.naming import count, name_some
from nnunet_dro.nnunet.folders import read_if_usable
from nnunet_dro.pages.html import page_assets, page_environment
from nnunet_dro.viewer.volumes import MB, MOST_MB, ShownCases, shown_cases

PAGE = "cases.html"  # The page's file, beside report.html.

_ASSETS = Path(__file__).parent / "assets"

#: Room for the texts that are longer once it is known which cases are left out, and for what is
#: said of each, bytes.
_SPARE = 10_000
_SPARE_OF_CASE = 500


@dataclass(frozen=True)
class Viewer:
    """The page, and what it shows."""

    html: str
    links: Mapping[
        tuple[str, str], str
    ]  # case and label to the address that shows them, relative to the page's folder
    summary: str  # how many cases it shows and how large it is, in a sentence
    notes: tuple[str, ...]  # sentences on what is not there


def viewer_page(
    evaluation: Evaluation,
    images: Path,
    *,
    per_stratum: int = 2,
    most_mb: float = MOST_MB,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
) -> Viewer:
    """The page of the worst cases of an evaluation that was read from its folder."""
    if not 0 < most_mb < math.inf:
        raise ValueError(
            f"`viewer_mb` must be a number above 0, got {most_mb:g}. Leave it out for {MOST_MB}."
        )
    labels, files, choices = worst_with_files(evaluation, per_stratum)
    if not choices:
        raise ValueError(
            "`viewer` must have a case with a score and a prediction, got none. Leave it out."
        )
    # Everything but the volumes, to know its size.
    frame = len(
        _html(evaluation, choices, ShownCases(), "", ()).encode("utf-8", errors="surrogateescape")
    )
    spare = _SPARE + _SPARE_OF_CASE * len(choices)
    urgent = by_urgency(choices, evaluation)
    shown = shown_cases(
        urgent, images, files, labels, most_mb=most_mb, frame_bytes=frame + spare, progress=progress
    )
    kept = [choice for choice in choices if choice.case in shown.volumes]
    size = (frame + shown.n_bytes) / MB
    summary = f"{count(len(shown.volumes), 'case')} in {size:.1f} MB of at most {most_mb:g} MB"
    notes = _notes(shown, most_mb)
    links = {
        (
            case,
            label,
        ): f"{PAGE}#case={quote(case, safe='', errors='surrogateescape')}&label={quote(label, safe='')}"
        for case, volumes in shown.volumes.items()
        for label in volumes.labels
    }
    return Viewer(_html(evaluation, kept, shown, summary, notes), links, summary, notes)


def _notes(shown: ShownCases, most_mb: float) -> tuple[str, ...]:
    notes = []
    if shown.left_out:
        notes.append(
            f"{count(len(shown.left_out), 'case')} had no room in {most_mb:g} MB and can only be seen in the report: "
            f"{name_some(shown.left_out)}. Raise --viewer-mb to see more."
        )
    if shown.only_first_channel:
        notes.append(
            f"Only the first channel of the images is here: all channels are larger than {most_mb:g} MB."
        )
    if cut := [case for case, volumes in shown.volumes.items() if volumes.is_cut]:
        notes.append(
            f"Of {count(len(cut), 'case')} only the surroundings of the largest disagreement are here, because the "
            f"labels as a whole are too large: {name_some(cut)}."
        )
    if any(volumes.has_ignored for volumes in shown.volumes.values()):
        notes.append("Predictions are not shown where the reference has the value to ignore.")
    return tuple(notes)


def _html(
    evaluation: Evaluation,
    choices: Sequence[Choice],
    shown: ShownCases,
    summary: str,
    notes: tuple[str, ...],
) -> str:
    environment = page_environment(_ASSETS)
    assets = page_assets()
    source = {
        name: Markup((_ASSETS / name).read_text(encoding="utf-8"))
        for name in ("niivue.min.js", "viewer.js")
    }
    scripts = [assets["script"], *source.values()]
    style = Markup(str(assets["style"]) + environment.get_template("viewer.css").render())
    return environment.get_template("viewer.html").render(
        content_security_policy=_content_security_policy(scripts, style),
        script=assets["script"],
        style=style,
        niivue=source["niivue.min.js"],
        viewer=source["viewer.js"],
        niivue_version=read_json(_ASSETS / "niivue.json")["version"],
        skip="Skip to the viewer",
        kind="nnunet-dro · worst cases",
        title=f"Worst cases of {evaluation.method}",
        heading=evaluation.method,
        payload={
            "columns": [],
            "steps": _steps(evaluation, choices),
            "cases": _cases(evaluation, shown),
        },
        volumes=_volumes(shown),
        flat=all(volumes.is_flat for volumes in shown.volumes.values()),
        summary=summary,
        all_notes=notes,
    )


def _content_security_policy(scripts: Sequence[str], style: str) -> Markup:
    """Only these scripts and this style run, and nothing but pictures as data (NiiVue's typeface) is loaded."""

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"

    allowed = " ".join(digest(script) for script in scripts)
    return Markup(
        f"default-src 'none'; script-src {allowed}; style-src {digest(style)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _steps(evaluation: Evaluation, choices: Sequence[Choice]) -> list[dict[str, Any]]:
    """What the reader steps through: a case and a label, with the reasons for which it is here."""
    steps: dict[tuple[str, str], dict[str, Any]] = {}
    for choice in choices:
        text = score_text(choice, evaluation)
        new = {"case": choice.case, "label": choice.label, "score": text, "strata": []}
        steps.setdefault((choice.case, choice.label), new)["strata"].append(choice.reason)
    return list(steps.values())


def _cases(evaluation: Evaluation, shown: ShownCases) -> dict[str, Any]:
    """Case to what the script has to know of its volumes."""
    path = evaluation.options.dataset_json
    dataset = (read_if_usable(Path(path)) if path else None) or {}
    given = dataset.get("channel_names", {})
    names = (
        {str(key): str(name) for key, name in given.items()} if isinstance(given, Mapping) else {}
    )
    return {
        case: {
            "id": f"volume-{n}",
            "labels": {name: list(values) for name, values in volumes.labels.items()},
            "channels": [names.get(str(c), f"channel {c}") for c in range(shown.n_channels(case))],
            "flat": volumes.is_flat,
            "shape": volumes.shape,
            "cut": volumes.is_cut,
        }
        for n, (case, volumes) in enumerate(shown.volumes.items())
    }


def _volumes(shown: ShownCases) -> list[tuple[str, str]]:
    """The id of every block of data in the page, and the block."""
    blocks: list[tuple[str, str]] = []
    for n, (case, volumes) in enumerate(shown.volumes.items()):
        kinds = {"reference": volumes.reference, "prediction": volumes.prediction}
        kinds |= {f"channel-{c}": volumes.channels[c] for c in range(shown.n_channels(case))}
        blocks += [(f"volume-{n}-{kind}", text) for kind, text in kinds.items()]
    return blocks
