from dataclasses import replace

import numpy as np
import pytest
import torch

from experiments.curves.results import ScoredRun, decision, differences, scores_of
from experiments.datasets.nuclei import N_TRAIN, Image
from experiments.nuclei import training
from experiments.nuclei.methods import METHODS, PLAIN, ROLES, TOLD
from experiments.nuclei.network import UNet
from experiments.nuclei.patches import BATCH, PATCH, draw_patch
from experiments.nuclei.training import Run, Sampler, dice_of, new_network
from nnunet_dro.losses import DiceCELoss
from tests.experiments.made_nuclei import made_images


def made_image(name="one", size=80, seed=0):
    rng = np.random.default_rng(seed)
    labels = (rng.random((size, size)) < 0.3).astype(np.uint8)
    return Image(
        name,
        "purple",
        (labels + rng.normal(scale=0.1, size=(3, size, size))).astype(np.float32),
        labels,
    )


def test_a_patch_is_a_piece_of_the_image():
    image = made_image()
    rng = np.random.default_rng(0)
    for _ in range(20):
        values, labels = draw_patch(image, foreground=True, rng=rng)
        assert (values.shape, labels.shape) == ((3, PATCH, PATCH), (PATCH, PATCH))
        assert np.isfinite(values).all()
        assert np.corrcoef(values.mean(0).ravel(), labels.ravel())[0, 1] > 0.5, (
            "image and labels are turned alike"
        )


def test_dice_of_nothing_is_one_and_of_a_perfect_prediction_too():
    class Right(torch.nn.Module):
        def predict(self, image):
            return image[0] > 0.5

    image = Image("a", "purple", np.zeros((3, 8, 8), np.float32), np.zeros((8, 8), np.uint8))

    assert dice_of(Right(), image) == 1

    image.intensities[:, 2:4] = image.labels[2:4] = 1
    assert dice_of(Right(), image) == 1

    image.labels[:] = 1
    assert dice_of(Right(), image) == pytest.approx(2 * 16 / (16 + 64))

    torch.manual_seed(0)
    assert UNet().predict(torch.randn(3, 37, 50)).shape == (37, 50)


@pytest.mark.parametrize("trainer", METHODS.values())
def test_a_sampler_draws_as_the_trainer_of_its_name(trainer):
    images = [made_image(f"image_{i}") for i in range(2 * BATCH)]
    sampler = Sampler(trainer, images, ["0.5"] * len(images) if "asWeights" in trainer else ())

    assert (sampler.pooled is not None) == (
        trainer.startswith("nnUNetTrainerDRO") or "modality_share" in trainer
    )
    assert (sampler.importance is not None) == (
        trainer in ("nnUNetTrainerDRO_share0.5_IS", "nnUNetTrainerHWS")
    )

    draws = sampler.draw(np.random.default_rng(0))
    assert len(set(draws.indices.tolist())) == BATCH
    assert sampler.draws.sum() == BATCH


def test_who_is_hard_to_predict_when_held_out_is_drawn_more_often(monkeypatch):
    images = made_images({"fluorescence": 12, "purple": 3})
    learnt = {}

    def learn(run, inside, _, network, loss):
        learnt[network] = [image.case for image in inside]

    def dice(network, image):
        assert image.case not in learnt[network], "the image was held out"
        return 0.3 if image.modality == "purple" else 0.9

    monkeypatch.setattr(training, "train", learn)
    monkeypatch.setattr(training, "dice_of", dice)

    of = {
        name: training.groups_of(Run(METHODS[name], 0, 8), images, None)
        for name in (TOLD, "shuffled", "held_out")
    }

    assert of[TOLD] == [image.modality for image in images]
    assert sorted(of["shuffled"]) == sorted(of[TOLD]) != of["shuffled"] != of[TOLD]

    weights = np.array(of["held_out"], dtype=float)
    assert weights.sum() == pytest.approx(1)
    assert weights[12:].min() > 3 * weights[:12].max()
    assert [len(cases) for cases in learnt.values()] == [10, 10, 10]


def test_group_dro_alone_lets_the_harder_modality_count_more():
    images = [made_image(f"image_{i}") for i in range(2 * BATCH)]
    images = [
        replace(image, modality="purple" if i % 2 else "gray_smear")
        for i, image in enumerate(images)
    ]
    groups, told = (Sampler(METHODS[name], images) for name in ("GroupDRO", TOLD))
    rng = np.random.default_rng(0)
    loss = DiceCELoss(batch_dice=True, do_bg=False, hardness="pooled")
    target = torch.ones(BATCH, 1, PATCH, PATCH, dtype=torch.long)
    for _ in range(30):
        draws = groups.draw(rng)
        is_hard = torch.from_numpy(draws.indices % 2 == 0)
        # Everything is a nucleus, which the hard half does not find.
        logits = torch.zeros(BATCH, 2, PATCH, PATCH)
        logits[:, 1] = torch.where(is_hard, -2.0, 2.0)[:, None, None]
        groups.weighted_loss(loss, logits, target, draws)

    weights = groups.weights(torch.zeros(BATCH), draws)

    assert weights[is_hard].min() > 1.05
    assert weights[~is_hard].max() < 0.95
    assert told.weights(torch.zeros(BATCH), told.draw(rng)).tolist() == [1.0] * BATCH


def made_scores(mean):
    """Runs of two seeds in which each method has a Dice in every modality and at every moment."""
    made = {}
    for seed in (0, 1):
        for method, trainer in METHODS.items():
            run = Run(trainer, seed, 10)
            at = [(moment, modality) for moment in run.moments for modality in N_TRAIN]
            dice = [
                (*place, f"case_{i}", mean(method, *place) + 0.01 * seed)
                for place in at
                for i in range(3)
            ]
            result = {
                "dice": dice,
                "share": [(*place, 0.25) for place in at],
                "clipped_share": 0.0,
                "seconds": 1.0,
            }
            made[f"{method}-seed{seed}"] = run, result
    return scores_of(
        ScoredRun.of(name, run, result, label="nucleus") for name, (run, result) in made.items()
    )


def test_differences_are_of_the_same_seed_and_no_share_of_no_gain():
    scores = made_scores(lambda method, moment, modality: 0.5 + 0.1 * (method != PLAIN))
    assert len(scores) == 2 * len(METHODS) * 3 * len(N_TRAIN)

    found = differences(scores, ROLES)
    others = found[found["method"] != PLAIN]

    np.testing.assert_allclose(others["difference"], 10)
    np.testing.assert_allclose(others[["low", "high"]], 10, atol=1e-6)
    assert found.loc[found["method"] == PLAIN, "difference"].isna().all()

    scores = made_scores(lambda method, moment, modality: 0.0 if moment == 1 else 0.5)
    rows = decision(scores, ROLES)

    assert rows[["gain", "gain_low", "gain_early"]].isna().all(axis=None)
    assert rows["passes"].all()


def test_the_rule_asks_for_the_worst_modality_and_for_the_way():
    def mean(method, moment, modality):
        if method == PLAIN:
            return 0.4
        if method == TOLD:
            return 0.4 if modality == "fluorescence" else 0.8
        if method == "share0.5":
            return 0.395 if modality == "fluorescence" else 0.6
        return 0.36 if moment == 1 else 0.5

    rows = decision(made_scores(mean), ROLES).set_index("method")

    assert set(rows.index[rows["passes"]]) == {PLAIN, "share0.5", TOLD}
    assert rows.loc["share0.5", "gain"] == pytest.approx(0.5)
    assert rows.loc["share0.5", "worst_at_end"] == pytest.approx(-0.5)
    assert rows.loc["share0.5_IS", ["worst_at_end", "worst_on_the_way"]].tolist() == pytest.approx(
        [10, -4]
    )
    assert rows.loc["share0.5", "rare"] == pytest.approx(60.5)
    # All cases of a stratum have the same Dice here.
    assert rows.loc["share0.5", "rare_p10 - plain"] == "+20.0 [+20.0, +20.0]"
    assert rows.loc["share0.5", "worst_p10_at_end"] == pytest.approx(-0.5)
    assert decision(made_scores(mean), ROLES, wrong_labels=True)["passes"].all()


def test_the_rule_judges_tails_apart_and_shares_over_the_seeds():
    scores = made_scores(lambda method, moment, modality: 0.5)
    scores = scores[scores["iteration"] == scores["iteration"].max()]
    scores.loc[(scores["method"] == TOLD) & (scores["stratum"] == "purple"), "p10"] -= 0.02

    rows = decision(scores, ROLES).set_index("method")

    assert rows.loc[TOLD, ["passes", "passes_p10"]].tolist() == [True, False]
    assert rows["worst_on_the_way"].isna().all()

    scores = made_scores(lambda method, moment, modality: {PLAIN: 0.2, TOLD: 0.6}.get(method, 0.4))
    scores.loc[(scores["method"] == "share0.5") & (scores["seed"] == 1), "mean"] += 0.2
    rows = decision(scores, ROLES).set_index("method")

    # The samples of two seeds are a half twice, the mean of both, and a whole.
    assert rows.loc["share0.5", ["gain", "gain_low", "gain_high"]].tolist() == pytest.approx(
        [0.75, 0.5, 1.0]
    )
    assert rows.loc[[PLAIN, TOLD], ["gain_low", "gain_high"]].isna().all(axis=None)


def test_a_finetuning_starts_from_the_plain_network_and_its_losses(tmp_path):
    images = [made_image(f"image_{i}") for i in range(2 * BATCH)]
    network = new_network(0)
    run = Run("nnUNetTrainerDRO", seed=0, iterations=1)
    before = {name: values.clone() for name, values in network.state_dict().items()}
    sampler = Sampler(run.trainer, images)

    training.fill_stale_losses(
        sampler,
        network,
        DiceCELoss(batch_dice=True, do_bg=False, hardness="pooled"),
        images,
        np.random.default_rng(0),
    )

    assert sampler.table.n_unseen == 0
    assert np.isfinite(sampler.table.losses).all()
    assert sampler.draws.sum() == 0, "these are no draws of the training"
    for name, values in network.state_dict().items():
        torch.testing.assert_close(values, before[name], rtol=0, atol=0)
