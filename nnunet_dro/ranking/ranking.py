"""Rank teams: overall, per task, per stratum, without each stratum, and how sure the ranks are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.arrays import BoolArray, FloatArray
from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric, in_pixels
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation, versions
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.ranking.contest import Task
from nnunet_dro.ranking.frames import (
    agreement_table,
    bootstrap_table,
    case_table,
    pairs_table,
    rank_table,
    tau_table,
)
from nnunet_dro.ranking.from_evaluations import Entries, read_entries
from nnunet_dro.ranking.invalid_files import invalid_table
from nnunet_dro.ranking.options import RankOptions
from nnunet_dro.ranking.podium import podium_table
from nnunet_dro.ranking.ranks import (
    DEFINITIONS,
    LEVEL,
    OVERALL,
    Stability,
    draw_units,
    overall_ranks,
    stability,
    task_scores,
    worst_scores,
)
from nnunet_dro.ranking.stability import (
    RankedPart,
    stability_of_strata,
    stability_of_tasks,
    stability_table,
)


@dataclass(frozen=True, eq=False)
class Ranking:
    """The ranks of teams."""

    #: Their names, the first in the ranking first; equal ones in the order of the other schemes'
    #: ranks.
    teams: tuple[str, ...]
    tasks: tuple[Task, ...]
    weights: tuple[float, ...]  # of the tasks in the overall ranking
    options: RankOptions  # how they were ranked
    strata: Mapping[str, Mapping[str, int]]  # attribute to its strata and their numbers of cases
    n_cases: int
    n_units: int  # number of patients; as many as cases where each is another patient's
    #: Attribute and stratum to the number of patients, or cases, in which a team has a value; `ALL`
    #: and `ALL` stand for all of them.
    n_valued: Mapping[tuple[str, str], int]
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
    #: and the full one, and ``n_samples``, the number of samples that have ranks.
    taus: pd.DataFrame
    #: How sure the ranks are by each metric, label and task and in each stratum, by the ranking's
    #: own scheme, with `STABILITY_COLUMNS`. Empty without resamples.
    parts: pd.DataFrame
    #: A row per task and ordered pair of teams, the ``better`` and the ``worse`` one:
    #: ``wilcoxon_p`` is one-sided, and ``holm_p`` corrected for all pairs of the task.
    tests: pd.DataFrame
    #: How often each of the first teams has each rank in the cases; see `podium_table`.
    podium: pd.DataFrame
    #: The predictions that could not be scored and count as failed; see `invalid_table`.
    invalid: pd.DataFrame
    #: A row per case and label, with the best, median and worst value of the teams for each metric;
    #: None with ``aggregate_only``.
    cases: pd.DataFrame | None = None
    case_names: tuple[str, ...] = ()  # the cases of ``values``; none with ``aggregate_only``
    #: The scores of the cases, shape (n_tasks, n_teams, n_cases), in the order of ``tasks``,
    #: ``teams`` and ``case_names``; NaN where undefined. None with ``aggregate_only``.
    values: FloatArray | None = None
    #: ``versions``, ``options``, ``in_pixels`` (whether distances are), ``definitions``.
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # sentences for the reader

    @property
    def scheme(self) -> RankingScheme:
        """The scheme that the ranking is by."""
        return self.options.scheme

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that are ranked by, each once."""
        return [self.metric(name) for name in dict.fromkeys(task.metric for task in self.tasks)]

    @property
    def labels(self) -> list[str]:
        """The labels that are ranked by, each once."""
        return list(dict.fromkeys(task.label for task in self.tasks))

    def metric(self, name: str) -> Metric:
        """One of the metrics, with the unit of its distances."""
        return METRICS[name].measured(pixels=bool(self.about.get("in_pixels")))

    def selected(self, scheme: RankingScheme | None = None, **columns: str) -> pd.DataFrame:
        """The rows of ``ranks`` of a scheme (default: the ranking's own) with these entries."""
        return _rows_with(self.ranks, {"scheme": (scheme or self.scheme).value, **columns})

    def overall(
        self,
        scheme: RankingScheme | None = None,
        *,
        kind: str = "all",
        attribute: str = ALL,
        stratum: str = "",
    ) -> "pd.Series[float]":
        """The overall rank of each team, indexed by team."""
        place = {"kind": kind, "attribute": attribute, "stratum": ALL if kind == "all" else stratum}
        rows = self.selected(scheme, metric=OVERALL, label=OVERALL, **place)
        ranks: dict[str, float] = dict(zip(rows["team"], rows["rank"], strict=True))
        return pd.Series(ranks, index=list(self.teams), name="rank")

    @property
    def samples(self) -> pd.DataFrame:
        """The bootstrap samples of the ranking's own scheme, by team; empty without any."""
        is_own = self.bootstrap["scheme"] == self.scheme.value
        return self.bootstrap[is_own].set_index("team")

    @property
    def task_ranks(self) -> FloatArray:
        """The ranks by each metric and label, shape (n_tasks, n_teams), in these orders."""
        rows = self.selected(kind="all")
        rows = rows[rows["metric"] != OVERALL]
        ranks = rows["rank"].to_numpy(dtype=np.float64)
        return ranks.reshape(len(self.tasks), len(self.teams))

    def without(self, attribute: str) -> pd.DataFrame:
        """The rows of ``agreement`` for each stratum of an attribute that is left out.

        They are those of the ranking's own scheme.
        """
        return _rows_with(
            self.agreement,
            {"kind": "without", "attribute": attribute, "scheme": self.scheme.value},
        ).set_index("stratum")


def _rows_with(table: pd.DataFrame, entries: Mapping[str, str]) -> pd.DataFrame:
    """The rows with some entries."""
    for column, entry in entries.items():
        table = table[(table[column] == entry).to_numpy()]
    return table


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
    entries = read_entries(evaluations, options)
    rankings = _rankings(entries)
    full = {
        scheme: overall_ranks(scores, entries.weights)
        for (scheme, part), scores in rankings.items()
        if part.kind == "all"
    }
    samples, parts = _bootstrap(entries, options, progress)
    # Equal teams by the mean of their ranks over all schemes, then as they were given.
    mean_ranks = np.mean(list(full.values()), axis=0)
    order = np.lexsort((mean_ranks, full[options.scheme])).tolist()

    ranking = Ranking(
        teams=tuple(entries.teams[place] for place in order),
        tasks=entries.tasks,
        weights=tuple(entries.weights.tolist()),
        options=options,
        strata=entries.n_cases,
        n_cases=len(entries.cases),
        n_units=entries.contest.n_units,
        n_valued={
            (part.attribute, part.stratum): part.n_valued
            for _, part in rankings
            if part.kind in ("all", "stratum")
        },
        ranks=rank_table(entries, rankings, order),
        agreement=agreement_table(entries, rankings, full),
        bootstrap=bootstrap_table(entries, samples, full, order),
        taus=tau_table(samples),
        parts=stability_table(entries, parts, order),
        tests=pairs_table(entries, order),
        podium=podium_table(entries, order),
        invalid=invalid_table(evaluations, aggregate_only=options.aggregate_only),
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


def _about(
    evaluations: Mapping[str, Evaluation], entries: Entries, options: RankOptions
) -> dict[str, Any]:
    """How the ranking was made, as its files have it."""
    definitions = {scheme.value: text for scheme, text in DEFINITIONS.items()}
    definitions |= {task.metric: METRICS[task.metric].definition for task in entries.tasks}
    return {
        "versions": versions("numpy", "pandas", "scipy"),
        "options": {
            "scheme": options.scheme.value,
            "by": list(entries.strata),
            "intersect": options.intersect,
            "n_resamples": options.n_resamples,
            "seed": options.seed,
            "patient": entries.patient,
            "metric_weights": list(options.metric_weights),
            "label_weights": list(options.label_weights),
            "aggregate_only": options.aggregate_only,
            "level": LEVEL,
        },
        "in_pixels": in_pixels(next(iter(evaluations.values())).scores),
        "definitions": definitions,
    }


def _rankings(entries: Entries) -> dict[tuple[RankingScheme, RankedPart], FloatArray]:
    """The scores of every ranking, shape (n_tasks, n_teams)."""
    everything = RankedPart("all", n=len(entries.cases), n_valued=entries.contest.n_valued())
    rankings = {}
    for scheme in RankingScheme:
        rankings[scheme, everything] = task_scores(entries.contest, scheme)[0]
        for attribute, strata in entries.strata.items():
            for part, scores in _rankings_by(attribute, strata, entries, scheme).items():
                rankings[scheme, part] = scores
    return rankings


def _rankings_by(
    attribute: str,
    strata: Sequence[tuple[str, BoolArray]],
    entries: Entries,
    scheme: RankingScheme,
) -> dict[RankedPart, FloatArray]:
    """The scores in each stratum, in each team's worst stratum, and without each stratum."""

    def scores_of(kind: str, stratum: str, inside: BoolArray) -> tuple[RankedPart, FloatArray]:
        contest = entries.contest_of(inside)
        part = RankedPart(
            kind, attribute, stratum, n=int(inside.sum()), n_valued=contest.n_valued()
        )
        return part, task_scores(contest, scheme)[0]

    rankings = dict(scores_of("stratum", stratum, inside) for stratum, inside in strata)
    worst = RankedPart(
        "worst",
        attribute,
        "",
        n=len(entries.cases),
        n_valued=entries.contest.n_valued(),
    )
    rankings[worst] = worst_scores(np.stack(list(rankings.values())))
    if len(strata) > 1:
        rankings |= dict(scores_of("without", stratum, ~inside) for stratum, inside in strata)
    return rankings


def _bootstrap(
    entries: Entries, options: RankOptions, progress: Callable[[int, int], None]
) -> tuple[dict[RankingScheme, Stability], dict[RankedPart, tuple[FloatArray, Stability]]]:
    """How sure the ranks are by each scheme, and by the ranking's own one in each part."""
    if not options.n_resamples:
        return {}, {}

    rng = np.random.default_rng(options.seed)
    counts = draw_units(entries.contest.n_units, options.n_resamples, rng)
    samples: dict[RankingScheme, Stability] = {}
    parts: dict[RankedPart, tuple[FloatArray, Stability]] = {}
    n_steps = len(RankingScheme) + 1
    for scheme in RankingScheme:
        progress(len(samples), n_steps)
        # The same samples for every scheme, so that the schemes can be compared.
        sampled = task_scores(entries.contest, scheme, counts)
        (scores,) = task_scores(entries.contest, scheme)
        samples[scheme] = stability(
            overall_ranks(scores, entries.weights),
            overall_ranks(sampled, entries.weights),
        )
        if scheme is options.scheme:
            parts |= stability_of_tasks(entries, scores, sampled)

    progress(len(samples), n_steps)
    parts |= stability_of_strata(entries, options.scheme, options.n_resamples, rng)
    progress(n_steps, n_steps)
    return samples, parts
