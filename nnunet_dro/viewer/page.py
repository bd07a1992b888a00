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

from nnunet_dro.evaluation.evaluating.result_files import VIEWER_PAGE
from nnunet_dro.evaluation.report.gallery import (
    Choice,
    by_picture,
    by_urgency,
    score_text,
    worst_with_files,
)
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.files.json_file import read_json
from nnunet_dro.naming import count, name_some
from nnunet_dro.nnunet.folders import read_if_usable
from nnunet_dro.pages.html import page_assets, page_environment
from nnunet_dro.viewer.volumes import MB, MOST_MB, VolumesOnPage, shown_cases

PAGE = VIEWER_PAGE

_ASSETS = Path(__file__).parent / "assets"

#: Bytes to spare: for the texts that are longer once it is known which cases are left out, and for
#: what is said of each case.
_SPARE = 10_000
_SPARE_OF_CASE = 500


@dataclass(frozen=True)
class Viewer:
    """The page, and what it shows."""

    html: str
    #: Case and label to the address that shows them, relative to the page's folder.
    links: Mapping[tuple[str, str], str]
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
    """The page of the worst cases of an evaluation.

    Args:
        evaluation: An evaluation that was read from its folder.
        images: Folder of the images.
        per_stratum: Number of cases to show per stratum and label.
        most_mb: Largest size of the page, MB. Cases for which there is no room are left out.
        progress: Called with the number of cases that are done and that of all.

    Raises:
        ValueError: If the size is no number above 0, or too small for one case, or if no case has a
            score and a prediction.
    """
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
    frame = _html(evaluation, choices, VolumesOnPage(), "", ())
    n_frame_bytes = len(frame.encode("utf-8", errors="surrogateescape"))
    n_spare_bytes = _SPARE + _SPARE_OF_CASE * len(choices)
    shown = shown_cases(
        by_urgency(choices, evaluation),
        images,
        files,
        labels,
        most_mb=most_mb,
        frame_bytes=n_frame_bytes + n_spare_bytes,
        progress=progress,
    )

    kept = [choice for choice in choices if choice.case in shown.volumes]
    n_mb = (n_frame_bytes + shown.n_bytes) / MB
    summary = f"{count(len(shown.volumes), 'case')} in {n_mb:.1f} MB of at most {most_mb:g} MB"
    notes = _notes(shown, most_mb)
    return Viewer(
        html=_html(evaluation, kept, shown, summary, notes),
        links=_links(shown),
        summary=summary,
        notes=notes,
    )


def _links(shown: VolumesOnPage) -> dict[tuple[str, str], str]:
    """Case and label to the address that shows them."""
    links = {}
    for case, volumes in shown.volumes.items():
        quoted_case = quote(case, safe="", errors="surrogateescape")
        for label in volumes.labels:
            quoted_label = quote(label, safe="")
            links[case, label] = f"{PAGE}#case={quoted_case}&label={quoted_label}"
    return links


def _notes(shown: VolumesOnPage, most_mb: float) -> tuple[str, ...]:
    """Sentences on what is not in the page, or differs from the files."""
    notes = []
    if shown.left_out:
        cases = count(len(shown.left_out), "case")
        notes.append(
            f"{cases} had no room in {most_mb:g} MB and can only be seen in the report: "
            f"{name_some(shown.left_out)}. Raise --viewer-mb to see more."
        )
    if shown.only_first_channel:
        notes.append(
            "Only the first channel of the images is here: all channels are larger than "
            f"{most_mb:g} MB."
        )

    cut = [case for case, volumes in shown.volumes.items() if volumes.is_cut]
    if cut:
        cases = count(len(cut), "case")
        notes.append(
            f"Of {cases} only the surroundings of the largest disagreement are here, because the "
            f"labels as a whole are too large: {name_some(cut)}."
        )
    if any(volumes.has_ignored for volumes in shown.volumes.values()):
        notes.append("Predictions are not shown where the reference has the value to ignore.")
    return tuple(notes)


def _html(
    evaluation: Evaluation,
    choices: Sequence[Choice],
    shown: VolumesOnPage,
    summary: str,
    notes: tuple[str, ...],
) -> str:
    """The page; its script and its style are its own, or those of NiiVue."""
    environment = page_environment(_ASSETS)
    assets = page_assets()
    niivue = Markup((_ASSETS / "niivue.min.js").read_text(encoding="utf-8"))
    viewer = Markup((_ASSETS / "viewer.js").read_text(encoding="utf-8"))
    scripts = [assets["script"], niivue, viewer]
    style = Markup(str(assets["style"]) + environment.get_template("viewer.css").render())

    payload = {
        "columns": [],
        "steps": _steps(evaluation, choices),
        "cases": _cases(evaluation, shown),
    }
    template = environment.get_template("viewer.html")
    return template.render(
        content_security_policy=_content_security_policy(scripts, style),
        script=assets["script"],
        style=style,
        niivue=niivue,
        viewer=viewer,
        niivue_version=read_json(_ASSETS / "niivue.json")["version"],
        skip="Skip to the viewer",
        kind="nnunet-dro · worst cases",
        title=f"Worst cases of {evaluation.method}",
        heading=evaluation.method,
        payload=payload,
        volumes=_volumes(shown),
        flat=all(volumes.is_flat for volumes in shown.volumes.values()),
        summary=summary,
        all_notes=notes,
    )


def _content_security_policy(scripts: Sequence[str], style: str) -> Markup:
    """What a browser may load into the page.

    Only these scripts and this style run, and nothing but pictures as data is loaded: NiiVue's
    typeface is one.
    """
    allowed = " ".join(_digest(script) for script in scripts)
    return Markup(
        f"default-src 'none'; script-src {allowed}; style-src {_digest(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    """The source of a policy that allows this script or style, and no other."""
    sha256 = hashlib.sha256(text.encode("utf-8")).digest()
    encoded = base64.b64encode(sha256).decode("ascii")
    return f"'sha256-{encoded}'"


def _steps(evaluation: Evaluation, choices: Sequence[Choice]) -> list[dict[str, Any]]:
    """What the reader steps through: a case and a label, with the reasons for which it is here."""
    steps = []
    for (case, label), same_picture in by_picture(choices).items():
        steps.append(
            {
                "case": case,
                "label": label,
                "score": score_text(same_picture[0], evaluation),
                "strata": [choice.reason for choice in same_picture],
            }
        )
    return steps


def _cases(evaluation: Evaluation, shown: VolumesOnPage) -> dict[str, Any]:
    """Case to what the script has to know of its volumes."""
    channel_names = _channel_names(evaluation)
    cases = {}
    for n, (case, volumes) in enumerate(shown.volumes.items()):
        channels = range(shown.n_channels(case))
        cases[case] = {
            "id": f"volume-{n}",
            "labels": {name: list(values) for name, values in volumes.labels.items()},
            "channels": [channel_names.get(str(c), f"channel {c}") for c in channels],
            "flat": volumes.is_flat,
            "shape": volumes.shape,
            "cut": volumes.is_cut,
        }
    return cases


def _channel_names(evaluation: Evaluation) -> dict[str, str]:
    """Number of a channel to its name in dataset.json, as far as that file can be read."""
    path = evaluation.options.dataset_json
    dataset = read_if_usable(Path(path)) if path else None
    names = (dataset or {}).get("channel_names", {})

    # Whoever wrote the file by hand may have written anything.
    if not isinstance(names, Mapping):
        return {}
    return {str(number): str(name) for number, name in names.items()}


def _volumes(shown: VolumesOnPage) -> list[tuple[str, str]]:
    """The id of every block of data in the page, and the block."""
    blocks: list[tuple[str, str]] = []
    for n, (case, volumes) in enumerate(shown.volumes.items()):
        volume_id = f"volume-{n}"
        blocks.append((f"{volume_id}-reference", volumes.reference))
        blocks.append((f"{volume_id}-prediction", volumes.prediction))

        n_channels = shown.n_channels(case)
        for c, channel in enumerate(volumes.channels[:n_channels]):
            blocks.append((f"{volume_id}-channel-{c}", channel))
    return blocks
