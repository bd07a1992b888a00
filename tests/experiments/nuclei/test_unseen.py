from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch

from experiments.__main__ import main
from experiments.nuclei.patches import BATCH, PATCH
from experiments.nuclei.training import new_network
from experiments.nuclei.unseen import (
    MEAN,
    METHODS,
    PLAIN,
    RANDOM,
    TWICE,
    WORST,
    compared,
    page_table,
    rises_of_plain,
)
from experiments.nuclei.unseen_data import (
    N_TRAIN,
    SEEN,
    UNSEEN,
    blurred,
    noisy,
    read_domains,
    unevenly_lit,
    unseen_images,
)
from experiments.nuclei.unseen_styles import (
    FIELD,
    GAIN,
    GRID,
    OFFSET,
    random_styles,
    restyled,
    worst_styles,
)
from experiments.nuclei.unseen_training import Method, UnseenRun, change_of, generate, train_unseen
from nnunet_dro.losses import DiceCELoss, cross_entropies
from tests.experiments.made_nuclei import write_domains

LOSS = DiceCELoss(batch_dice=True, do_bg=False, hardness="pooled")


def made_batch(size=16):
    rng = np.random.default_rng(0)
    labels = torch.from_numpy((rng.random((2, 1, size, size)) < 0.3).astype(np.int64))
    return labels + torch.from_numpy(rng.normal(scale=0.2, size=(2, 3, size, size))).float(), labels


def test_the_style_zero_changes_nothing_and_others_do_what_they_say():
    data = torch.ones(1, 2, 7, 7)
    styles = torch.zeros(1, 2 + 2 + GRID**2)

    torch.testing.assert_close(restyled(data, styles), data)

    styles[0, 0], styles[0, 3], styles[0, 4] = 1, -1, 1
    changed = restyled(data, styles)[0]
    # Brighter in the first channel, darker in the second, and lighter towards the first corner,
    # down to the next point.
    field = FIELD * torch.outer(*[torch.tensor([1, 0.5, 0, 0, 0, 0, 0])] * 2)

    torch.testing.assert_close(changed[0], np.exp(GAIN) + field)
    torch.testing.assert_close(changed[1], 1 - OFFSET + field)

    drawn = random_styles(data, rng=np.random.default_rng(0))
    assert drawn.shape == styles.shape
    assert drawn.abs().max() <= 1


@pytest.mark.parametrize(("highest", "corner"), [(np.inf, 1.0), (1.0, 0.5)])
def test_the_worst_of_a_linear_loss_is_the_corner_with_a_finite_one(highest, corner):
    data = torch.zeros(2, 1, 4, 4)
    signs = torch.tensor([1.0, -1.0])
    start = torch.zeros(2, 2 + GRID**2)

    def losses_of(images):
        means = signs * images.mean((1, 2, 3))
        return torch.where(means > highest, torch.nan, means)

    found = worst_styles(torch.nn.Identity(), data, losses_of, start=start, steps=3, step_size=0.5)

    # The gain of nothing has no gradient.
    torch.testing.assert_close(found[:, 1:], corner * signs[:, None].expand(2, 1 + GRID**2))
    assert not found.requires_grad


def test_the_ascent_makes_no_loss_smaller_and_leaves_the_network_alone():
    network, (images, labels) = new_network(0), made_batch()
    before = {name: values.clone() for name, values in network.state_dict().items()}
    start = random_styles(images, rng=np.random.default_rng(0))

    def losses_of(logits):
        return cross_entropies(LOSS, logits, labels)

    def loss_in(styles):
        return losses_of(network(restyled(images, styles))).detach()

    found = worst_styles(network, images, losses_of, start=start, steps=3, step_size=0.5)

    gains = loss_in(found) - loss_in(start)

    assert (gains >= 0).all()
    assert (gains > 0).any()
    assert found.abs().max() <= 1
    assert network.training
    assert all(parameter.grad is None for parameter in network.parameters())
    for name, values in network.state_dict().items():
        torch.testing.assert_close(values, before[name], rtol=0, atol=0)

    none = worst_styles(network, images, losses_of, start=start, steps=0, step_size=0.5)
    torch.testing.assert_close(none, start)


def test_worst_styles_start_from_the_random_ones():
    network, (images, labels) = new_network(0), made_batch()
    losses = {}

    for kind in (RANDOM, WORST):
        made = generate(
            Method(generated=kind), network, LOSS, images, labels, rng=np.random.default_rng(3)
        )
        losses[kind] = cross_entropies(LOSS, network(made), labels).detach()

    assert (losses[WORST] >= losses[RANDOM]).all()
    assert (losses[WORST] > losses[RANDOM]).any()


def test_gils_keeps_its_bound_in_standard_deviations_of_the_patch():
    network, (images, labels) = new_network(0), made_batch()
    for bound in (0.02, 0.05):
        method = Method(generated="GI-LS", largest_change=bound)
        made = generate(method, network, LOSS, images, labels, rng=np.random.default_rng(0))
        assert change_of(made, images) <= bound * (1 + 1e-4)
        assert not torch.equal(made, images)

    images = 2 * torch.tensor([-1.0, 1.0]).expand(1, 3, 4, 2)

    assert change_of(images + 1, images) == pytest.approx(0.5)


def test_changed_images_are_standardised_and_keep_their_place():
    rng = np.random.default_rng(0)
    image = rng.normal(size=(3, 40, 60)).astype(np.float32)

    for changed in (blurred(image), noisy(image, rng=rng), unevenly_lit(image, angle=0.3)):
        assert changed.dtype == np.float32
        np.testing.assert_allclose(changed.mean((1, 2)), 0, atol=1e-5)
        np.testing.assert_allclose(changed.std((1, 2)), 1, atol=1e-5)

    flat = unevenly_lit(np.zeros((3, 4, 5), np.float32), angle=0)
    np.testing.assert_allclose(
        flat[0] / flat[0].max(), np.tile(np.linspace(-1, 1, 5), (4, 1)), atol=1e-6
    )


def test_unseen_domains_are_in_no_training_and_no_field_is_on_both_sides(tmp_path):
    write_domains(tmp_path)
    table = read_domains(tmp_path)

    train_images, test_images = unseen_images(
        tmp_path, table, rng=np.random.default_rng(0), n_test=4
    )

    assert [image.modality for image in train_images] == [SEEN] * N_TRAIN
    assert list(dict.fromkeys(image.modality for image in test_images)) == [SEEN, *UNSEEN]

    fields = table.set_index("case")["field"]
    assert not {fields[image.case] for image in train_images} & {
        fields[image.case] for image in test_images
    }

    again, _ = unseen_images(tmp_path, table, rng=np.random.default_rng(0), n_test=4)
    assert [image.case for image in again] == [image.case for image in train_images]


def test_a_training_repeats_itself_and_generates_nothing_in_the_warm_up(tmp_path):
    write_domains(tmp_path)
    images = unseen_images(tmp_path, read_domains(tmp_path), rng=np.random.default_rng(0), n_test=1)

    assert len(images[0]) == BATCH
    assert min(images[0][0].labels.shape) >= PATCH

    def trained(method):
        return train_unseen(UnseenRun("nnUNetTrainerDRO_beta0", 0, 4, method), *images)

    plain = trained(Method())
    worst = trained(Method(generated=WORST))
    later = trained(Method(generated=WORST, warmup=1.0))

    assert plain["dice"] == later["dice"]
    assert plain["dice"] != worst["dice"]
    assert (plain["change"], later["change"]) == (0, 0)
    assert worst["change"] > 0.1
    assert {row[0] for row in plain["dice"]} == {1, 2, 3, 4}
    assert sum(share for at, _, share in plain["share"] if at == 4) == 1


def test_trainings_of_other_lengths_are_compared_at_their_ends():
    rows = []
    for (name, method), seed, quarter, domain in product(
        METHODS.items(), range(3), (1, 2, 3, 4), (SEEN, *UNSEEN)
    ):
        # Rising by a tenth of it per quarter.
        mean = (0.5 + 0.01 * seed + 0.1 * (name == TWICE) - 0.2 * (domain != SEEN)) * (
            0.6 + 0.1 * quarter
        )
        rows.append((name, name, seed, 2 * quarter * method.length, domain, mean))
    scores = pd.DataFrame(
        rows, columns=["method", "trainer", "seed", "iteration", "stratum", "mean"]
    )
    scores = scores.assign(label="nucleus", n=1, p10=0.1, share=0.0, change=0.05, milliseconds=10.0)

    found = compared(scores, TWICE).set_index(["method", "stratum"])

    assert found.loc[(WORST, MEAN), "difference"] == pytest.approx(-10)
    assert set(found.index.get_level_values("stratum")) == {SEEN, *UNSEEN, MEAN}
    assert compared(scores, PLAIN).set_index(["method", "stratum"]).loc[
        (PLAIN, MEAN), "mean"
    ] == pytest.approx(31)
    assert rises_of_plain(scores)[SEEN] == pytest.approx(5.1)

    table = page_table(scores).set_index("method")
    assert table.loc[TWICE, "time over plain"] == pytest.approx(2)
    assert table.loc[WORST, f"{MEAN} - {TWICE}"].startswith("-10.0 [")


def test_a_table_without_the_column_of_the_domains_is_one_line(tmp_path, capsys):
    (tmp_path / "cases.csv").write_text("case,modality\none,purple\n")
    assert main(["nuclei-unseen", "--data", str(tmp_path)]) == 2
    assert "`cases.csv` must have a column stratum, got case, modality." in capsys.readouterr().err
