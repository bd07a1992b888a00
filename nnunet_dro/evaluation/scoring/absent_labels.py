"""What is said of labels that some cases lack."""

from collections.abc import Mapping

from nnunet_dro.naming import count, name_some

#: A label that this share of the cases have is usual; with fewer cases nobody can say.
_MOST = 0.8
_FEWEST = 5


def note_on_absent_labels(
    n_voxels: Mapping[str, Mapping[str, float]],
    usual: Mapping[str, Mapping[str, float]] | None = None,
) -> list[str]:
    """A sentence on labels that some cases lack and most cases have.

    Args:
        n_voxels: Case to the voxels of each label.
        usual: The same of the cases that say which labels are usual; default: all of these.

    Returns:
        A list with the sentence, or an empty one.
    """
    judged = n_voxels if usual is None else usual
    if len(judged) < _FEWEST:
        return []

    absent = []
    for label in next(iter(judged.values())):
        without = [case for case, voxels in n_voxels.items() if voxels[label] == 0]
        n_with = sum(voxels[label] > 0 for voxels in judged.values())
        if without and n_with >= _MOST * len(judged):
            cases = count(len(without), "case")
            absent.append(f"{label} in {cases} ({name_some(without)})")
    if not absent:
        return []

    return [
        f"Labels that most cases have are absent in some: {'; '.join(absent)}. A structure that is "
        "there and not labelled makes a case look hard, and robust training draws it more often. "
        "Look at these label maps: annotate it, or mark where it may be with nnU-Net's ignore "
        "label."
    ]
