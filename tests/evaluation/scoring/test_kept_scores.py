"""Finished cases are kept until the results are written: an interrupted run goes on, and scores
nothing twice."""

import math
from dataclasses import asdict
from types import SimpleNamespace

import pandas as pd
import pytest

from nnunet_dro.evaluation.scoring import kept_scores, score_files
from nnunet_dro.evaluation.scoring.instances import Instances
from nnunet_dro.evaluation.scoring.kept_scores import KeptScores, keeping
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.evaluation.scoring.score_files import PairOfFiles, ScoredPair, score_pair
from nnunet_dro.evaluation.scoring.scoring import Scoring
from tests.commands import done
from tests.evaluation.made_folders import (
    bars,
    names_in,
    run_evaluate,
    scores_of,
    summary_of,
    write_map,
    write_study,
)

LABELS = Labels({"tumour": (1,)})
SCORING = Scoring(("dice", "hd95"))


def scored(case, dice=1 / 3):
    row = {
        "label": "tumour",
        "dice": dice,
        "hd95": math.nan,
        "n_reference": 3,
        "reference_ml": 0.1 + 0.2,
    }
    return ScoredPair(case, [row], (1, 2), {"dice": math.nan}, ("a" * 64, ""))


def keep(path, *pairs, labels=LABELS, scoring=SCORING):
    """Keep the scores of cases, or those that are given."""
    kept = KeptScores(path)
    kept.known(labels, scoring)
    for pair in pairs:
        kept.add(scored(pair) if isinstance(pair, str) else pair)
    kept.close()


def known(path, labels=LABELS, scoring=SCORING):
    return KeptScores(path, resume=True).known(labels, scoring)


@pytest.fixture
def interrupted(tmp_path, monkeypatch):
    """A study of five cases, whose first run was interrupted when three were scored."""
    study = write_study(tmp_path, shifts=(0, 1, 2, 3, 4))
    finished = []

    def stop(pair, *options):
        if len(finished) == 3:
            raise KeyboardInterrupt
        finished.append(pair.case)
        return score_pair(pair, *options)

    with monkeypatch.context() as patch:
        patch.setattr(score_files, "score_pair", stop)
        patch.setattr(kept_scores, "_WORTH_KEEPING_S", 0.0)
        result = run_evaluate(study, "--jobs", 1)
    assert result.exit_code == 130
    assert "--resume" in result.stderr
    assert not (study / "out").exists()
    return study, finished


@pytest.fixture
def scored_again(monkeypatch):
    """The cases that are scored from here on."""
    cases = []

    def count(pair, *options):
        cases.append(pair.case)
        return score_pair(pair, *options)

    monkeypatch.setattr(score_files, "score_pair", count)
    return cases


def test_scores_are_read_as_they_were(tmp_path):
    names = ["a", "b\udcff"]
    keep(tmp_path / "kept", *names)

    found = known(tmp_path / "kept")

    # As text, in which NaN equals itself.
    assert {name: repr(asdict(one)) for name, one in found.items()} == {
        n: repr(asdict(scored(n))) for n in names
    }

    for content in (b"", b"\n", b"[]\n", b"{}\n{}\n", b"\xff\xfe\n"):
        (tmp_path / "kept").write_bytes(content)
        assert known(tmp_path / "kept") == {}


def test_lesions_are_kept_as_they_are_scored(tmp_path):
    study = write_study(tmp_path, shifts=(3,))
    pair = PairOfFiles(
        "case_00", study / "reference" / "case_00.nii.gz", study / "prediction" / "case_00.nii.gz"
    )
    labels = Labels({"tumour": (1,), "organ": (2,)})
    scoring = Scoring(("dice", "lesion_f1"), instances=Instances(("tumour",)))

    one = score_pair(pair, labels, scoring)

    assert one.lesions

    keep(tmp_path / "kept", one, labels=labels, scoring=scoring)

    assert repr(asdict(known(tmp_path / "kept", labels, scoring)["case_00"])) == repr(asdict(one))


@pytest.mark.parametrize("n_lost", [1, 2, 40, 200])
def test_a_line_that_was_cut_short_is_left_out_and_the_next_begins_a_line(tmp_path, n_lost):
    path = tmp_path / "kept"
    keep(path, "a", "b")
    path.write_bytes(path.read_bytes()[:-n_lost])

    kept = KeptScores(path, resume=True)

    assert list(kept.known(LABELS, SCORING)) == ["a"]

    kept.add(scored("c"))
    kept.close()

    assert list(known(path)) == ["a", "c"]


@pytest.mark.parametrize(
    ("labels", "scoring"),
    [
        (Labels({"tumour": (2,)}), SCORING),
        (None, SCORING),
        (LABELS, Scoring(("dice",))),
        (LABELS, Scoring(("dice", "hd95"), 2.0)),
    ],
)
def test_scores_with_other_options_are_not_used(tmp_path, labels, scoring):
    keep(tmp_path / "kept", "a")
    assert known(tmp_path / "kept", labels, scoring) == {}


def test_an_interrupted_run_goes_on(interrupted, scored_again):
    study, finished = interrupted

    resumed = run_evaluate(study, "--resume")

    n_scored = sorted(scored_again)

    assert (resumed.exit_code, run_evaluate(study, out="whole").exit_code) == (0, 0), resumed.output
    assert n_scored == sorted({f"case_{n:02}" for n in range(5)} - set(finished))
    assert "Scores of 3 of 5 cases were taken over" in " ".join(resumed.stdout.split())
    pd.testing.assert_frame_equal(scores_of(study / "out"), scores_of(study / "whole"))
    assert summary_of(study / "out")["inputs"] == summary_of(study / "whole")["inputs"]
    # Nothing is left beside the results.
    assert names_in(study) == ["out", "prediction", "reference", "whole"]


def test_a_file_that_changed_is_scored_again(interrupted, scored_again):
    study, finished = interrupted
    write_map(study / "prediction" / f"{finished[0]}.nii.gz", bars(4, 3))

    assert "Scores of 2 of 5 cases" in " ".join(
        done(run_evaluate(study, "--resume")).stdout.split()
    )
    assert finished[0] in scored_again


@pytest.mark.parametrize("options", [(), ("--resume", "--metrics", "dice,iou")])
def test_without_resume_or_with_other_options_a_run_starts_anew(interrupted, scored_again, options):
    study, _ = interrupted
    result = done(run_evaluate(study, *options))

    assert len(scored_again) == 5
    assert ("Scores of 0 of 5 cases" in " ".join(result.stdout.split())) == bool(options)
    assert names_in(study) == ["out", "prediction", "reference"]


@pytest.mark.parametrize(
    ("error", "seconds", "says"),
    [
        (ValueError("Wrong."), 59, r"^Wrong\.$"),
        (ValueError("Wrong."), 61, r"^Wrong\. .* --resume\.$"),
        (KeyboardInterrupt(), 59, r"^$"),
        (KeyboardInterrupt(), 61, r"--resume\.$"),
    ],
)
def test_what_is_kept_of_a_run_that_ends_early_depends_on_its_time(
    tmp_path, monkeypatch, error, seconds, says
):
    monkeypatch.setattr(
        kept_scores, "time", SimpleNamespace(monotonic=iter([0.0, seconds]).__next__)
    )
    path = tmp_path / "new" / "kept"

    def run():
        with keeping(path, resume=False) as kept:
            kept.known(LABELS, SCORING)
            kept.add(scored("a"))
            raise error

    with pytest.raises(type(error), match=says):
        run()

    if seconds > 60:
        assert list(known(path)) == ["a"]
    else:
        assert names_in(tmp_path) == []


def test_where_nothing_can_be_kept_the_run_goes_on(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    with keeping(tmp_path / "file" / "kept", resume=False) as kept:
        kept.known(LABELS, SCORING)
        kept.add(scored("a"))
        kept.add(scored("b"))

    assert caplog.text.count("Finished cases are not kept") == 1


def test_the_voxel_size_beside_a_tiff_may_have_changed(tmp_path, scored_again):
    pair = PairOfFiles("a", tmp_path / "a.tif", tmp_path / "b.tif")
    for path in (pair.reference, pair.prediction):
        write_map(path, bars(4))
    first = score_pair(pair, LABELS.of_values([1, 2]), SCORING)
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text('{"spacing": [2, 2, 2]}')

    again, was_known = score_files.score_unless_known(
        (pair, first), LABELS.of_values([1, 2]), SCORING
    )

    assert not was_known
    assert again.rows[0]["reference_ml"] == pytest.approx(4 * 0.008)
