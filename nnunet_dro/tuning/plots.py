"""The plots of a study on its page."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import optuna
from markupsafe import Markup
from optuna.trial import FrozenTrial, TrialState

from nnunet_dro.pages.document import Block, Figure, Heading, Prose
from nnunet_dro.tuning.study import Settings
from nnunet_dro.tuning.trials import copied, is_search


@dataclass(frozen=True)
class _Plot:
    """A plot of the page."""

    title: str
    about: str  # what it shows
    needs: str  # what the study must have for it
    is_possible: bool  # whether the study has that
    draw: Callable[[], Any]  # makes the figure of Plotly
    layout: Mapping[str, Any] = field(default_factory=dict)  # what differs from Optuna's


def drawn_plots(study: optuna.Study, settings: Settings) -> Iterator[Block]:
    """The plots after the script that draws them, and which are left out."""
    from plotly.offline import get_plotlyjs

    blocks: list[Block] = []
    left_out = []
    for plot in _plots(study, settings):
        if not plot.is_possible:
            left_out.append(f"{plot.title}: left out because it needs {plot.needs}.")
            continue
        try:
            drawn = plot.draw().update_layout(
                title=None,
                template="plotly_white",
                margin={"t": 30},
                **plot.layout,
            )
        except (ValueError, RuntimeError) as error:
            # Days of training must not end without a table because of a plot.
            left_out.append(f"{plot.title}: left out because Optuna cannot draw it ({error}).")
            continue

        html = drawn.to_html(include_plotlyjs=False, full_html=False, config={"displaylogo": False})
        anchor = plot.title.lower().replace(" ", "-")
        blocks.append(Heading(plot.title, anchor=anchor, short=plot.title))
        blocks.append(Prose(plot.about))
        blocks.append(Figure(drawing=Markup(html)))

    if blocks:
        # Only its own end tag ends a script element, and plotly.js holds none.
        yield Figure(drawing=Markup(f"<script>{get_plotlyjs()}</script>"))
    yield from blocks
    for sentence in left_out:
        yield Prose(sentence)


def _plots(study: optuna.Study, settings: Settings) -> list[_Plot]:
    """The plots of the page, in their order."""
    from optuna import visualization

    objective = settings.objective
    n_tuned = len(settings.space.names)

    # Repetitions are no part of the search, and the defaults may lie outside of the ranges.
    searched = copied(study, is_search)
    inside = copied(study, lambda trial: is_search(trial) and len(trial.params) == n_tuned)
    complete = inside.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    has_epochs = any(trial.intermediate_values for trial in study.get_trials(deepcopy=False))

    why_negative = "" if objective.maximise else ", negated because lower is better here"
    return [
        _Plot(
            "History",
            "Every complete trial, and the best value so far.",
            needs="a complete trial",
            is_possible=bool(searched.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))),
            draw=partial(
                visualization.plot_optimization_history, searched, target_name=objective.text
            ),
        ),
        *_plots_of_options(inside, complete, settings),
        _Plot(
            "Trainings",
            "The running mean of nnU-Net's pseudo Dice after each epoch, of pruned trainings too"
            f"{why_negative}.",
            needs="an epoch's end",
            is_possible=has_epochs,
            draw=partial(visualization.plot_intermediate_values, searched),
            layout={"xaxis_title": "epoch", "yaxis_title": "pseudo Dice"},
        ),
    ]


def _plots_of_options(
    inside: optuna.Study, complete: Sequence[FrozenTrial], settings: Settings
) -> list[_Plot]:
    """The plots of the objective against the options.

    Args:
        inside: The trials of the search with a value of every option.
        complete: Those of them that are complete.
        settings: The settings of the study.
    """
    from optuna import visualization

    names = settings.space.names
    text = settings.objective.text

    n_varied = 0
    for name in names:
        values = {trial.params.get(name) for trial in complete}
        n_varied += len(values) > 1
    n_objectives = len({trial.value for trial in complete})
    can_explain = n_objectives > 1 and n_varied > 0

    two_trials = "two trials that differ in options and objective"
    need_of_pairs = "two options that vary" if can_explain else two_trials

    return [
        _Plot(
            "Importance",
            "The share of the objective's variation that each option explains, by PED-ANOVA.",
            needs=two_trials,
            is_possible=can_explain,
            draw=partial(visualization.plot_param_importances, inside, target_name=text),
        ),
        _Plot(
            "Options",
            "The objective against each option; darker trials are later.",
            needs="a complete trial with a value of every option",
            is_possible=bool(complete),
            draw=partial(visualization.plot_slice, inside, target_name=text),
        ),
        _Plot(
            "Pairs of options",
            "Interpolated between the trials (dots); with few trials, the landscape between them "
            "is a guess.",
            needs=need_of_pairs,
            is_possible=can_explain and n_varied > 1,
            draw=partial(visualization.plot_contour, inside, target_name=text),
            layout={"height": 200 + 150 * len(names)},
        ),
    ]
