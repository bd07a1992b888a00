"""The report files of an evaluation or a comparison."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.inputs import labels_by_value
from nnunet_dro.evaluation.report.gallery import GalleryEntry, gallery_entries, worst_cases
from nnunet_dro.evaluation.report.html import comparison_html, evaluation_html
from nnunet_dro.evaluation.report.latex import comparison_latex, evaluation_latex
from nnunet_dro.evaluation.report.markdown import comparison_markdown, evaluation_markdown
from nnunet_dro.evaluation.scoring.labels import Labels, read_labels

if TYPE_CHECKING:
    from nnunet_dro.evaluation.comparing.comparison import Comparison


def evaluation_reports(
    evaluation: Evaluation,
    gallery: Sequence[GalleryEntry] = (),
    links: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> dict[str, str]:
    """The reports of an evaluation: name to content.

    Args:
        evaluation: The evaluation.
        gallery: Pictures of the worst cases, for the page.
        links: Case and label to the address that shows them in the viewer, for the page.

    Returns:
        ``report.html``, ``report.md`` and ``report.tex``.
    """
    return {
        "report.html": evaluation_html(evaluation, gallery, links),
        "report.md": evaluation_markdown(evaluation),
        "report.tex": evaluation_latex(evaluation),
    }


def comparison_reports(comparison: "Comparison") -> dict[str, str]:
    """The reports of a comparison: name to content; as `evaluation_reports`."""
    return {
        "report.html": comparison_html(comparison),
        "report.md": comparison_markdown(comparison),
        "report.tex": comparison_latex(comparison),
    }


def pictures_of(
    evaluation: Evaluation,
    images: Path,
    *,
    per_stratum: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> list[GalleryEntry]:
    """Pictures of the worst cases of an evaluation that was read from its folder.

    Args:
        evaluation: The evaluation, whose ``about`` says where the label maps and dataset.json were.
        images: Folder of nnU-Net images.
        per_stratum: Number of pictures per stratum and label.
        progress: Called with the number of finished pictures and the number of all pictures.

    Returns:
        An entry per case and label.

    Raises:
        FileNotFoundError: If an image, a label map or dataset.json does not exist any more; the message names it.
        ValueError: If one cannot be used.
    """
    labels, files = labels_of(evaluation), label_map_files(evaluation)
    choices = [choice for choice in worst_cases(evaluation, per_stratum=per_stratum) if choice.case in files]
    return gallery_entries(evaluation, images, files, labels=labels, choices=choices, progress=progress)


def labels_of(evaluation: Evaluation) -> Labels:
    """The values of the labels of an evaluation that was read from its folder.

    Raises:
        FileNotFoundError: If its dataset.json does not exist any more.
        ValueError: If it cannot be used.
    """
    path = evaluation.options.dataset_json
    return read_labels(Path(path)) if path else labels_by_value(evaluation.labels)


def label_map_files(evaluation: Evaluation) -> dict[str, tuple[Path, Path]]:
    """Case to its reference and its prediction; without the cases that have no prediction, which nobody can show."""
    files = evaluation.about["inputs"]["files"].items()
    return {case: (Path(reference), Path(prediction)) for case, (reference, prediction) in files if prediction}
