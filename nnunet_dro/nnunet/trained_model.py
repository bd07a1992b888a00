"""A trained model by the words of nnU-Net's commands, and the references of its cases."""

from pathlib import Path

from nnunet_dro.naming import name_some, nearest_names
from nnunet_dro.nnunet.folders import dataset_folder, find_dataset, folder_of, plans_option
from nnunet_dro.nnunet.raw_dataset import COPIES


def trained_model(dataset: str, trainer: str, plans: str, configuration: str | None) -> Path:
    """The folder of a trained model in nnUNet_results.

    Raises:
        FileNotFoundError: If there is none. The message lists what was trained in place of the name
            that is wrong.
    """
    train = (
        f"train one: nnUNetv2_train {dataset} {configuration or 'CONFIGURATION'} FOLD "
        f"-tr {trainer}{plans_option(plans)}"
    )
    results = find_dataset(
        dataset,
        folder_of("nnUNet_results", cure="give folders"),
        cure=train,
        absent="of which no model is trained yet",
    )
    models = [
        folder.name.split("__") for folder in sorted(results.glob("*__*__*")) if folder.is_dir()
    ]

    where = repr(str(results))
    wanted = {"trainer": trainer, "plans": plans, "configuration": configuration}
    for place, (kind, name) in enumerate(wanted.items()):
        names = list(dict.fromkeys(model[place] for model in models))
        models = [model for model in models if model[place] == name]
        if not models:
            got = repr(name) if name else "none"
            raise FileNotFoundError(
                f"`{kind}` must be one that was trained in {where}, got {got}. Choose from: "
                f"{nearest_names(name or '', names)}; or {train}."
            )
        where += f", {kind} {name}"
    return results / "__".join(models[0])


def references_of(dataset: str) -> Path:
    """The folder of the reference label maps of the training cases of a dataset.

    It is the one that nnU-Net validates with, or else labelsTr.

    Raises:
        FileNotFoundError: If neither exists.
    """
    inner = {"nnUNet_preprocessed": COPIES, "nnUNet_raw": "labelsTr"}
    places = []
    for variable, name in inner.items():
        folder = dataset_folder(variable, dataset)
        if folder is not None:
            places.append(folder / name)

    if existing := next(filter(Path.is_dir, places), None):
        return existing

    got = "neither variable set"
    if places:
        got = f"no such folder: {name_some([str(place) for place in places])}"
    raise FileNotFoundError(
        f"`reference` must be {COPIES} of {dataset} in nnUNet_preprocessed or labelsTr in "
        f"nnUNet_raw, got {got}. Set the variables as for nnU-Net, or give folders."
    )
