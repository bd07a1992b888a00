"""The cases on which the trials of a study are scored."""

from nnunet_dro.evaluation.label_maps import list_label_maps
from nnunet_dro.json_file import read_json
from nnunet_dro.nnunet.folders import SPLITS_FILE
from nnunet_dro.nnunet.target import Target


def validation_cases(target: Target) -> list[str]:
    """The validation cases of the fold; all cases if nnU-Net has not divided them yet, or divides them itself."""
    every = sorted(list_label_maps(target.references))
    path = target.preprocessed / SPLITS_FILE
    if target.fold == "all" or not path.is_file():
        return every
    try:
        splits = read_json(path)
        return sorted(splits[int(target.fold)]["val"]) if int(target.fold) < len(splits) else every
    except (ValueError, KeyError, TypeError) as error:
        cure = "Write it again with `nnunet-dro splits --force`, or remove it."
        raise ValueError(f"`fold` must be in a usable splits_final.json, got {str(path)!r}. {cure}") from error
