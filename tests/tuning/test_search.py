"""What trials are spent on: the defaults first, no trainer twice, and how existing studies go on."""

import json
import re

import optuna
import pytest
import sqlalchemy
from optuna.distributions import FloatDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import TrialState, create_trial

from nnunet_dro.nnunet.training import find_target
from nnunet_dro.tuning import storage
from nnunet_dro.tuning.objective import parse_objective
from nnunet_dro.tuning.session import about
from nnunet_dro.tuning.space import parse_space
from nnunet_dro.tuning.storage import closing, open_storage, open_study
from nnunet_dro.tuning.study import Settings
from nnunet_dro.tuning.trials import draw_options
from tests.tuning.conftest import BETA, NAME

PLAIN = "nnUNetTrainerHWS_4epochs"


def stored_trials(fake, name=NAME):
    with closing(open_storage(None, fake.results / "tuning" / name)) as storage:
        return optuna.load_study(study_name=name, storage=storage).trials


@pytest.mark.parametrize(
    ("options", "values", "learnt"),
    [
        (("beta:10:100", "chi2"), {"beta": 100, "chi2": "off"}, {"beta": 100, "chi2": "off"}),
        # What is outside of the ranges is not told to the sampler.
        (("beta:10:90",), {"beta": 100}, {}),
        (("cvar:0.1:0.5",), {"cvar": ""}, {}),
    ],
)
def test_first_trial_has_the_defaults_and_the_sampler_learns_from_it(
    fake, tune, options, values, learnt
):
    tune(*(word for option in options for word in ("--option", option)), "--trials", "2")
    assert fake.calls[0] == PLAIN

    first = fake.trials().iloc[0]
    assert first["state"] == "complete"
    assert first[list(values)].to_dict() == values
    assert stored_trials(fake)[0].params == learnt

    page = fake.page()
    assert "left out" not in re.sub(
        "Pairs of options: left out because it needs two|Importance: left out", "", page
    )


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_sampler_learns_beside_defaults_outside_of_the_ranges():
    space = parse_space("HWS", ["beta:10:90"], epochs=4, iterations=None)
    study = optuna.create_study(direction="maximize")
    study.add_trial(create_trial(value=50.0, user_attrs={"trainer": PLAIN}))
    for n, beta in enumerate((12.0, 25.0, 40.0, 60.0, 75.0, 88.0)):
        drawn = {"params": {"beta": beta}, "distributions": {"beta": FloatDistribution(10, 90)}}
        study.add_trial(
            create_trial(**drawn, value=-((beta - 50) ** 2), user_attrs={"trainer": f"T{n}"})
        )

    sampler = optuna.samplers.GPSampler(seed=0, n_startup_trials=3)

    assert draw_options(study, space, sampler, seed=0)["beta"] == pytest.approx(50, abs=4)


def test_rounded_twins_are_not_tried(fake, tune):
    result = tune("--option", "beta:10:10.1", "--option", "warmup:0:1", "--trials", "20")
    trials = fake.trials()

    # The defaults, and 10 and 10.1 with and without warm-up.
    assert len(fake.calls) == len(set(fake.calls)) == 5
    assert trials["state"].tolist() == ["complete"] * 5
    assert "the search ends" in result.stderr
    assert result.stdout.splitlines()[-1] in fake.calls

    params = [trial.params for trial in stored_trials(fake)[1:]]
    assert {one["beta"] for one in params} == {10.0, 10.1}, "the sampler learns what was trained"


class Stubborn(BaseSampler):
    """Proposes the same, whatever it has seen."""

    seen = 0

    def infer_relative_search_space(self, study, trial):
        return {}

    def sample_relative(self, study, trial, search_space):
        self.seen = len(study.get_trials(states=(TrialState.COMPLETE,)))
        return {}

    def sample_independent(self, study, trial, name, distribution):
        return 20.0


def test_proposal_that_was_tried_is_replaced():
    space = parse_space("HWS", ["beta:10:100"], epochs=4, iterations=None)
    study = optuna.create_study(direction="maximize")

    sampler = Stubborn()

    assert draw_options(study, space, sampler, seed=0) == {"beta": 20.0}

    for beta, name in (
        (20.0, "nnUNetTrainerHWS_beta20_4epochs"),
        (30.0, "nnUNetTrainerHWS_beta30_4epochs"),
    ):
        trial = study.ask()
        space.suggest(trial)
        study._storage.set_trial_user_attr(trial._trial_id, "trainer", name)
        trial.set_user_attr("values", {"beta": beta})
        study.tell(trial, 0.5)
    drawn = draw_options(study, space, sampler, seed=0)

    assert drawn["beta"] not in (20.0, 30.0)
    assert sampler.seen == 2
    assert draw_options(study, space, sampler, seed=0) == drawn
    assert draw_options(study, space, sampler, seed=1) != drawn


def test_refused_combination_is_not_drawn_again():
    space = parse_space("HWS", ["chi2", "noIS"], epochs=4, iterations=None)
    study = optuna.create_study()
    drawn = []

    while (
        options := draw_options(study, space, RandomSampler(seed=len(drawn)), seed=len(drawn))
    ) is not None:
        drawn.append(options)
        trial = study.ask()
        trial.set_user_attr("values", options)
        try:
            trial.set_user_attr("trainer", space.trainer_name(options))
        except ValueError:
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, 0.5)

    assert sorted(map(repr, drawn)) == sorted({repr(one) for one in drawn})
    assert len(drawn) == 4


def test_training_that_failed_may_be_tried_again(fake, tune, monkeypatch):
    monkeypatch.setenv("FAKE", json.dumps({"crash": ["chi2"]}))
    tune("--option", "chi2", "--trials", "2", code=2)
    monkeypatch.delenv("FAKE")

    tune("--option", "chi2", "--trials", "2")

    assert set(fake.trials().query("state == 'complete'")["trainer"]) == {
        PLAIN,
        "nnUNetTrainerHWS_chi2_4epochs",
    }


def test_defaults_whose_training_failed_are_tried_again_by_the_next_start(fake, tune, monkeypatch):
    monkeypatch.setenv("FAKE", json.dumps({"crash": [PLAIN]}))
    tune(*BETA, "--trials", "1")
    monkeypatch.delenv("FAKE")
    for _ in range(2):
        tune(*BETA, "--trials", "2")

    trials = fake.trials()
    assert trials["state"].tolist() == ["failed", "complete", "complete"]
    assert [trials["trainer"][n] == PLAIN for n in range(3)] == [True, False, True]


@pytest.mark.parametrize(
    ("options", "prunes"),
    [
        (("--epochs", "19"), False),
        (("--epochs", "20"), True),
        (("--epochs", "19", "--pruning"), True),
        (("--epochs", "20", "--no-pruning"), False),
    ],
)
def test_short_trainings_are_not_pruned_by_default(fake, tune, monkeypatch, options, prunes):
    seen = []
    monkeypatch.setattr(
        "nnunet_dro.tuning.session.run_study", lambda settings, *_: seen.append(settings)
    )

    tune(*BETA, *options)

    assert [settings.prune for settings in seen] == [prunes]


def test_defaults_that_two_machines_have_queued_are_trained_once(fake, tune):
    folder = fake.results / "tuning" / NAME
    folder.mkdir(parents=True)
    space = parse_space("HWS", ["beta:10:100"], epochs=4, iterations=None)
    target = find_target("7", "2d", "0", plans="nnUNetPlans")
    settings = Settings(
        target,
        space,
        parse_objective("mean"),
        cases=None,
        device="cpu",
        n_trials=2,
        sampler="gp",
        seed=0,
        prune=False,
        folder=folder,
        is_shared=False,
    )
    with closing(open_storage(None, folder)) as storage:
        study = open_study(storage, NAME, about(settings), maximise=True)
        for _ in range(2):
            study.enqueue_trial({"beta": 100.0}, user_attrs={"plain": True, "trainer": PLAIN})

    tune(*BETA, "--trials", "2")

    assert fake.trials()["state"].tolist() == ["complete", "failed", "complete"]
    assert len(set(fake.calls)) == len(fake.calls) == 2


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_database_whose_tables_another_machine_makes_is_opened_again(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "_OPENING_SECONDS", 0.0)
    opened = []

    def open_it(url, **options):
        opened.append(url)
        if len(opened) < 3:
            raise sqlalchemy.exc.ProgrammingError("CREATE TABLE", {}, Exception("relation exists"))
        return "storage"

    monkeypatch.setattr(storage, "RDBStorage", open_it)

    assert open_storage("postgresql://host/db", tmp_path) == "storage"

    opened[:] = []
    monkeypatch.setattr(storage, "_OPENINGS", 2)

    with pytest.raises(ValueError, match="`storage` must be a database of Optuna"):
        open_storage("postgresql://host/db", tmp_path)
    assert len(opened) == 2
