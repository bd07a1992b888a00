"""Rank teams: overall, per task, per stratum, without each stratum, and how sure the ranks are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.evaluation_result import Evaluation, versions
from nnunet_dro.evaluation.options import RankOptions
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric, in_pixels
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.ranking.frames import (
    OVERALL,
    About,
    agreement_table,
    bootstrap_table,
    case_table,
    pairs_table,
    rank_table,
    tau_table,
)
from nnunet_dro.ranking.from_evaluations import (
    BoolArray,
    Contest,
    Entries,
    FloatArray,
    Task,
    read_entries,
)
from nnunet_dro.ranking.ranks import (
    DEFINITIONS,
    LEVEL,
    Stability,
    bootstrap_ranks,
    draw_units,
    overall_ranks,
    task_scores,
    worst_scores,
)


@dataclass(frozen=True, eq=False)
class Ranking:
    """The ranks of teams."""

    #: Their names, the first in the ranking first; equal ones in the order of the other schemes'
    #: ranks.
    teams: tuple[str, ...]
    tasks: tuple[Task, ...]
    options: RankOptions  # how they were ranked
    strata: Mapping[str, Mapping[str, int]]  # attribute to its strata and their numbers of cases
    n_cases: int
    n_units: int  # number of patients; as many as cases where each is another patient's
    #: A row per kind, attribute, stratum, scheme, task and team, with `RANK_COLUMNS`. ``all``:
    #: every case; ``stratum``: its cases; ``worst``: each team's worst stratum of the attribute,
    #: task by task; ``without``: all cases but those of the stratum. Where metric and label are
    #: `OVERALL`, the score is the mean of the ranks over the tasks.
    ranks: pd.DataFrame
    #: Kendall's tau of each of these rankings and that of all cases, with `AGREEMENT_COLUMNS`.
    agreement: pd.DataFrame
    #: A row per scheme and team, with `BOOTSTRAP_COLUMNS` (95 % interval) and ``share_1`` ..., how
    #: often the team has each rank. Empty without resamples.
    bootstrap: pd.DataFrame
    #: A row per scheme: mean, median and 95 % interval of Kendall's tau of the samples' rankings
    #: and the full one.
    taus: pd.DataFrame
    #: A row per task and ordered pair of teams, the ``better`` and the ``worse`` one:
    #: ``wilcoxon_p`` is one-sided, and ``holm_p`` corrected for all pairs of the task.
    tests: pd.DataFrame
    #: A row per case and label, with the best, median and worst value of the teams for each metric;
    #: None with ``aggregate_only``.
    cases: pd.DataFrame | None
    case_names: tuple[str, ...]  # the cases of ``values``; none with ``aggregate_only``
    #: The scores of the cases, shape (n_tasks, n_teams, n_cases), in the order of ``tasks``,
    #: ``teams`` and ``case_names``; NaN where undefined. None with ``aggregate_only``.
    values: FloatArray | None
    #: ``versions``, ``options``, ``in_pixels`` (whether distances are), ``definitions``.
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # sentences for the reader

    @property
    def scheme(self) -> RankingScheme:
        """The scheme that the ranking is by."""
        return self.options.scheme

    def metric(self, name: str) -> Metric:
        """One of the metrics, with the unit of its distances."""
        return METRICS[name].measured(pixels=bool(self.about.get("in_pixels")))

    def selected(self, scheme: RankingScheme | None = None, **columns: str) -> pd.DataFrame:
        """The rows of ``ranks`` of a scheme (default: the ranking's own) with these entries."""
        wanted = {"scheme": (scheme or self.scheme).value, **columns}
        return _rows_with(self.ranks, wanted)

    def overall(self, scheme: RankingScheme | None = None, **columns: str) -> "pd.Series[float]":
        """The overall rank of each team, indexed by team."""
        defaults = {"kind": "all", "metric": OVERALL, "label": OVERALL}
        rows = self.selected(scheme, **(defaults | columns))
        return rows.set_index("team")["rank"].reindex(list(self.teams))

    @property
    def samples(self) -> pd.DataFrame:
        """The bootstrap samples of the ranking's own scheme, by team; empty without any."""
        is_own = self.bootstrap["scheme"] == self.scheme.value
        return self.bootstrap[is_own].set_index("team")

    def without(self, attribute: str) -> pd.DataFrame:
        """The rows of ``agreement`` for each stratum of an attribute that is left out.

        They are those of the ranking's own scheme.
        """
        wanted = {"kind": "without", "attribute": attribute, "scheme": self.scheme.value}
        return _rows_with(self.agreement, wanted).set_index("stratum")


def _rows_with(table: pd.DataFrame, entries: Mapping[str, str]) -> pd.DataFrame:
    wanted = pd.Series(entries)
    return table[(table[wanted.index] == wanted).all(axis=1)]


def rank_evaluations(
    evaluations: Mapping[str, Evaluation],
    options: RankOptions | None = None,
    *,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
    **fields: Any,
) -> Ranking:
    """Rank teams by evaluations of the same cases.

    Fields of `RankOptions` may be given in place of those in ``options``. ``progress`` is called
    with the number of finished steps and of all steps. A ValueError says what cannot be ranked
    together.
    """
    options = replace(options or RankOptions(), **fields)
    entries = read_entries(evaluations, by=options.by, intersect=options.intersect)
    samples = _bootstrap(
        entries.contest,
        options.n_resamples,
        options.seed,
        progress,
    )
    rankings = _rankings(entries)
    full = {
        about.scheme: overall_ranks(scores)
        for about, scores in rankings.items()
        if about.kind == "all"
    }
    # Equal teams by the mean of their ranks over all schemes, then as they were given.
    mean_ranks = np.mean(list(full.values()), axis=0)
    order = np.lexsort((mean_ranks, full[options.scheme.value])).tolist()

    ranking = Ranking(
        teams=tuple(entries.teams[place] for place in order),
        tasks=entries.tasks,
        options=options,
        strata=_sizes(entries),
        n_cases=len(entries.cases),
        n_units=entries.contest.n_units,
        ranks=rank_table(entries, rankings, order),
        agreement=agreement_table(rankings, full),
        bootstrap=bootstrap_table(
            entries,
            samples,
            full,
            order,
        ),
        taus=tau_table(samples),
        tests=pairs_table(entries, order),
        cases=None,
        case_names=(),
        values=None,
        about=_about(evaluations, entries, options),
        notes=entries.notes,
    )
    if options.aggregate_only:
        return ranking
    return replace(
        ranking,
        cases=case_table(entries),
        case_names=entries.cases,
        values=entries.values[:, order],
        notes=(*entries.notes, *entries.notes_on_cases),
    )


def _sizes(entries: Entries) -> dict[str, dict[str, int]]:
    """Attribute to its strata and their numbers of cases."""
    sizes = {}
    for attribute, strata in entries.strata.items():
        sizes[attribute] = {stratum: int(inside.sum()) for stratum, inside in strata}
    return sizes


def _about(
    evaluations: Mapping[str, Evaluation], entries: Entries, options: RankOptions
) -> dict[str, Any]:
    """How the ranking was made, as its files have it."""
    definitions = {scheme.value: text for scheme, text in DEFINITIONS.items()}
    for task in entries.tasks:
        definitions[task.metric] = METRICS[task.metric].definition
    return {
        "versions": versions("numpy", "pandas", "scipy"),
        "options": {
            "scheme": options.scheme.value,
            "by": list(entries.strata),
            "intersect": options.intersect,
            "n_resamples": options.n_resamples,
            "seed": options.seed,
            "patient": entries.patient,
            "aggregate_only": options.aggregate_only,
            "level": LEVEL,
        },
        "in_pixels": in_pixels(next(iter(evaluations.values())).scores),
        "definitions": definitions,
    }


def _rankings(entries: Entries) -> dict[About, FloatArray]:
    """The scores of every ranking, shape (n_tasks, n_teams)."""
    rankings = {}
    for scheme in RankingScheme:
        everything = About(
            "all",
            ALL,
            ALL,
            len(entries.cases),
            scheme.value,
        )
        rankings[everything] = task_scores(entries.contest, scheme)[0]

        for attribute, strata in entries.strata.items():
            rankings |= _rankings_by(
                attribute,
                strata,
                entries.contest,
                scheme,
            )
    return rankings


def _rankings_by(
    attribute: str,
    strata: Sequence[tuple[str, BoolArray]],
    contest: Contest,
    scheme: RankingScheme,
) -> dict[About, FloatArray]:
    """The scores in each stratum, in each team's worst stratum, and without each stratum."""
    rankings = {}
    for stratum, inside in strata:
        about = About(
            "stratum",
            attribute,
            stratum,
            int(inside.sum()),
            scheme.value,
        )
        rankings[about] = task_scores(contest.of_cases(inside), scheme)[0]

    worst = About(
        "worst",
        attribute,
        "",
        len(contest.units),
        scheme.value,
    )
    rankings[worst] = worst_scores(np.stack(list(rankings.values())))

    if len(strata) > 1:
        for stratum, inside in strata:
            about = About(
                "without",
                attribute,
                stratum,
                int((~inside).sum()),
                scheme.value,
            )
            rankings[about] = task_scores(contest.of_cases(~inside), scheme)[0]
    return rankings


def _bootstrap(
    contest: Contest, n_resamples: int, seed: int, progress: Callable[[int, int], None]
) -> dict[RankingScheme, Stability]:
    if not n_resamples:
        return {}

    counts = draw_units(contest.n_units, n_resamples, np.random.default_rng(seed))
    samples: dict[RankingScheme, Stability] = {}
    for scheme in RankingScheme:
        progress(len(samples), len(RankingScheme))
        # The same samples for every scheme, so that the schemes can be compared.
        samples[scheme] = bootstrap_ranks(contest, scheme, counts)

    progress(len(samples), len(RankingScheme))
    return samples
