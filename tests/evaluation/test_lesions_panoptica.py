"""Lesions matched one to one, beside panoptica (Kofler et al. 2023); runs where it is installed."""

import numpy as np
import pytest
from scipy import ndimage

from nnunet_dro.evaluation.scoring.instances import Instances, parse_match
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.evaluation.scoring.score_arrays import score_case
from nnunet_dro.evaluation.scoring.scoring import Scoring

panoptica = pytest.importorskip("panoptica")


def evaluator(threshold):
    return panoptica.Panoptica_Evaluator(
        panoptica.InputType.SEMANTIC,
        instance_approximator=panoptica.ConnectedComponentsInstanceApproximator(),
        instance_matcher=panoptica.NaiveThresholdMatching(matching_threshold=threshold),
    )


def random_pair(seed):
    """Blobs, and the same ones partly moved, grown, lost and invented."""
    rng = np.random.default_rng(seed)
    shape = (20, 24, 24)
    reference = ndimage.gaussian_filter(rng.normal(size=shape), 1.5) > 0.12
    other = ndimage.gaussian_filter(rng.normal(size=shape), 1.5) > 0.2
    kept = ndimage.shift(reference.astype(np.uint8), (0, int(rng.integers(0, 2)), 0), order=0) > 0
    prediction = np.where(rng.random() < 0.5, kept, ndimage.binary_dilation(reference)) & (
        rng.random(shape) < 0.98
    )
    return reference.astype(np.uint8), (prediction | other).astype(np.uint8)


@pytest.mark.parametrize("threshold", [0.2, 0.5])
def test_counts_and_panoptic_quality_are_those_of_panoptica(threshold):
    metrics = ("lesion_recall", "lesion_precision", "lesion_f1", "pq", "sq", "rq")
    scoring = Scoring(metrics, 1.0, "undefined", Instances(("*",), parse_match(f"iou:{threshold}")))
    peer = evaluator(threshold)
    n_lesions = n_found = 0

    for seed in range(30):
        reference, prediction = random_pair(seed)
        (row,) = score_case(
            reference, prediction, Labels({"lesion": (1,)}), scoring, spacing=(1.0, 1.0, 1.0)
        )
        theirs = peer.evaluate(prediction, reference, verbose=False)["ungrouped"]
        assert row["lesions_reference"] == theirs.n_ref_instances
        assert row["lesions_predicted"] == theirs.n_pred_instances
        assert row["lesions_found"] == theirs.tp
        assert row["lesions_invented"] == theirs.fp
        assert [row["rq"], row["lesion_f1"]] == pytest.approx([theirs.rq, theirs.rq])
        if theirs.tp:
            assert [row["sq"], row["pq"]] == pytest.approx([theirs.sq, theirs.pq])
        n_lesions = n_lesions + theirs.n_ref_instances
        n_found = n_found + theirs.tp

    assert 0.2 * n_lesions < n_found < 0.9 * n_lesions
