"""A fold that names cases which nobody has preprocessed."""

import json

import pytest

from nnunet_dro.trainers.data.preprocessed_cases import check_preprocessed, check_previous_stage


@pytest.mark.parametrize("endings", [(".b2nd", "_seg.b2nd", ".pkl"), (".npz", ".pkl")])
def test_cases_without_an_image_are_not_preprocessed(tmp_path, endings):
    for case in ("a", "b.c", "lung_seg"):
        for ending in endings:
            (tmp_path / f"{case}{ending}").touch()

    check_preprocessed(tmp_path, ["a", "b.c", "lung_seg"])
    with pytest.raises(FileNotFoundError, match="got a ghost, b, ghost, not in"):
        check_preprocessed(tmp_path, ["ghost", "a", "b", "a ghost"])


def test_a_stage_that_another_trainer_has_predicted_is_named(tmp_path):
    model = tmp_path / "nnUNetTrainerDRO__nnUNetPlans__3d_lowres"
    folder = model / "predicted_next_stage" / "3d_cascade_fullres"
    cure = r"a, b in .*Train every fold of 3d_lowres with -tr nnUNetTrainerDRO, or copy"
    with pytest.raises(FileNotFoundError, match=f"got no {cure}"):
        check_previous_stage(folder, ["b", "a"])

    folder.mkdir(parents=True)
    (folder / "a.b2nd").touch()
    with pytest.raises(FileNotFoundError, match="got no b in"):
        check_previous_stage(folder, ["b", "a"])
    (folder / "b.npz").touch()
    check_previous_stage(folder, ["b", "a"])


def test_cases_of_another_format_are_not_looked_for(tmp_path):
    (tmp_path / "a.zarr").touch()

    check_preprocessed(tmp_path, ["a", "b"])


@pytest.mark.parametrize("part", ["train", "val"])
def test_a_trainer_names_them_before_it_starts(start, project, part):
    file = project("labels").preprocessed / "splits_final.json"
    before = file.read_bytes() if file.exists() else None
    fold = {"train": ["case_00", "case_01"], "val": ["case_02"]}
    fold[part].append("ghost")
    file.write_text(json.dumps([fold]))

    try:
        with pytest.raises(FileNotFoundError, match=r"got ghost.* Run nnUNetv2_preprocess again"):
            start("nnUNetTrainerDRO")
    finally:
        file.unlink()
        if before is not None:
            file.write_bytes(before)


@pytest.mark.parametrize("name", ["DRO", "IW_site", "L2RW"])
def test_every_trainer_names_what_the_stage_before_lacks(make_trainer, tmp_path, name):
    trainer = make_trainer(f"nnUNetTrainer{name}")
    trainer.is_cascaded = True
    model = tmp_path / "Mine__nnUNetPlans__3d_lowres"
    trainer.folder_with_segs_from_previous_stage = str(model / "predicted_next_stage" / "3d_small")

    with pytest.raises(FileNotFoundError, match=r"got no case_00, .* -tr Mine"):
        trainer.on_train_start()
