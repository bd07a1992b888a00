"""The minutes of trials, and the page of a study that was made up."""

from datetime import timedelta
from types import SimpleNamespace

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState, create_trial

from nnunet_dro.tuning.objective import parse_objective
from nnunet_dro.tuning.report import write_page
from nnunet_dro.tuning.trials import minutes_of

HOSTILE = "<script>window.hurt=1</script>"


def made_study(n_trials=8):
    study = optuna.create_study(study_name=HOSTILE, direction="maximize")
    ranges = {"beta": FloatDistribution(1, 100), "wmax": FloatDistribution(1, 10)}
    for n in range(n_trials):
        is_complete = n < n_trials - 2
        values = {"beta": 10.0 + n, "wmax": 2.0 + n % 3}
        trial = create_trial(
            state=TrialState.COMPLETE if is_complete else TrialState.PRUNED,
            value=0.5 + 0.05 * (n * 3 % 5) if is_complete else None,
            params=values,
            distributions=ranges,
            user_attrs={
                "values": values,
                "trainer": f"nnUNetTrainerHWS_beta{10 + n}",
                "reason": HOSTILE,
            },
            intermediate_values={0: 0.1 + 0.01 * n, 1: 0.3 + 0.01 * n},
        )
        study.add_trial(trial)
    return study


@pytest.fixture
def settings(tmp_path):
    target = SimpleNamespace(
        dataset="Dataset007_Made", configuration="2d", plans="nnUNetPlans", fold="0"
    )
    space = SimpleNamespace(names=["beta", "wmax"], edges=lambda values: [])
    return SimpleNamespace(
        space=space, objective=parse_objective("p10 of dice"), folder=tmp_path, target=target
    )


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_page_draws_every_plot_and_asks_for_nothing(settings, open_page):
    wait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
    path = write_page(made_study(), settings, "nnUNetv2_train 7 2d 0 -tr X")
    page = open_page(path.read_text(encoding="utf-8"))

    wait(page.driver, 30).until(lambda _: len(page.all(".js-plotly-plot .main-svg")) >= 5)

    assert len(page.all(".js-plotly-plot")) == 5
    assert len(page.all("tbody tr")) == 8
    assert page.text("pre") == "nnUNetv2_train 7 2d 0 -tr X"
    assert page.run("return window.hurt === undefined")
    assert page.requests() == []

    # Plotly makes a picture to download by way of an address inside the browser, which the page's
    # policy allows.
    page.run("document.querySelector('.modebar-btn[data-title*=\"Download\"]').click()")
    wait(page.driver, 30).until(lambda _: any(url.startswith("blob:") for url in page.requests()))

    assert page.errors() == []


def test_defaults_outside_of_the_ranges_have_a_history(settings):
    study = optuna.create_study(study_name="made", direction="maximize")
    attributes = {"values": {}, "trainer": "nnUNetTrainerHWS"}
    study.add_trial(create_trial(value=0.5, user_attrs=attributes))
    page = write_page(study, settings, "").read_text(encoding="utf-8")

    assert "History: left out" not in page
    assert "Options: left out because it needs a complete trial with a value" in page


@pytest.mark.parametrize(
    ("reason", "minutes"), [("interrupted", [3, 7, 9]), ("killed", [None, None, None])]
)
def test_minutes_of_a_trial_are_those_of_all_its_starts(reason, minutes):
    trials = [
        SimpleNamespace(
            number=number,
            state=TrialState.COMPLETE if number == 2 else TrialState.FAIL,
            duration=timedelta(minutes=length),
            user_attrs={"reason": reason},
            system_attrs={"retry_history": list(range(number))},
        )
        for number, length in enumerate((3, 4, 2))
    ]
    assert [minutes_of(trial, trials) for trial in trials] == minutes
