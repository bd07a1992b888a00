"""What DICOM segmentations need beside themselves: the images that they are of."""

from collections.abc import Iterator
from dataclasses import replace

from nnunet_dro.choices import EmptyRule
from nnunet_dro.evaluation.inputs.folders import Inputs
from nnunet_dro.evaluation.inputs.options import EvaluateOptions
from nnunet_dro.evaluation.scoring.dicom import is_dicom
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.evaluation.scoring.map_pairs import only_predicted
from nnunet_dro.evaluation.stratifying.images import find_image
from nnunet_dro.naming import name_some


def with_images(inputs: Inputs, labels: Labels | None, options: EvaluateOptions) -> Inputs:
    """Inputs where every DICOM segmentation has its image, if images are there, and notes on them.

    Raises:
        FileNotFoundError: If an image is missing. The message names its case.
    """
    pairs = []
    are_sizes_unknown = False
    is_diagonal = options.scoring.empty is EmptyRule.DIAGONAL
    for pair in inputs.pairs:
        is_only_dicom = is_dicom(pair.reference)
        if pair.prediction is not None:
            is_only_dicom = is_only_dicom and is_dicom(pair.prediction)

        if is_only_dicom and options.images is not None:
            pair = replace(pair, image=find_image(options.images, pair.case))
        elif is_only_dicom and (pair.prediction is None or is_diagonal):
            # A score may be the diagonal or the volume of the image.
            are_sizes_unknown = True
        pairs.append(pair)

    notes = [*inputs.notes, *_notes_on_names(inputs, labels)]
    if are_sizes_unknown:
        notes.append(
            "What missing labels and predictions are scored with is measured from the first to the "
            "last slice of the DICOM segmentations, since the size of the images is not known; "
            "--images names their folder."
        )
    return replace(inputs, pairs=tuple(pairs), notes=tuple(notes))


def _notes_on_names(inputs: Inputs, labels: Labels | None) -> Iterator[str]:
    """Which predicted segments have no label, where labels are those of the references."""
    if labels is None or not labels.are_segments:
        return
    names = only_predicted([pair.prediction for pair in inputs.pairs if pair.prediction], labels)
    if names:
        yield f"Segments that occur only in predictions are not scored: {name_some(names)}."
