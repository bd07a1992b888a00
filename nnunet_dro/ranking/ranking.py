"""Rank teams: overall, per task, per stratum, without each stratum, and how sure the ranks are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.evaluation_result import Evaluation, versions
from nnunet_dro.evaluation.options import RankOptions
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric, in_pixels
from nnunet_dro.evaluation.statistics.significance import holm
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.ranking.from_evaluations import Contest, Entries, FloatArray, Task, read_entries
from nnunet_dro.ranking.ranks import (
    DEFINITIONS,
    LEVEL,
    Stability,
    bootstrap_ranks,
    consensus,
    draw_units,
    kendall_tau,
    overall_ranks,
    pairwise_p,
    ranks_of,
    task_scores,
    worst_scores,
)

OVERALL = "all"  # The metric and the label of the rows over all tasks.

RANK_COLUMNS = (
    "kind",
    "attribute",
    "stratum",
    "n",
    "scheme",
    "metric",
    "label",
    "team",
    "score",
    "rank",
)
AGREEMENT_COLUMNS = ("kind", "attribute", "stratum", "n", "scheme", "kendall_tau")
BOOTSTRAP_COLUMNS = ("scheme", "team", "rank", "rank_low", "rank_median", "rank_high")


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
    agreement: (
        pd.DataFrame
    )  # Kendall's tau of each of these rankings and that of all cases, with `AGREEMENT_COLUMNS`
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
        wanted = pd.Series({"scheme": (scheme or self.scheme).value, **columns})
        return self.ranks[(self.ranks[wanted.index] == wanted).all(axis=1)]

    def overall(self, scheme: RankingScheme | None = None, **columns: str) -> "pd.Series[float]":
        """The overall rank of each team, indexed by team."""
        rows = self.selected(
            scheme, **{"kind": "all", "metric": OVERALL, "label": OVERALL, **columns}
        )
        return rows.set_index("team")["rank"].reindex(list(self.teams))

    @property
    def samples(self) -> pd.DataFrame:
        """The bootstrap samples of the ranking's own scheme, by team; empty without any."""
        return self.bootstrap[self.bootstrap["scheme"] == self.scheme.value].set_index("team")

    def without(self, attribute: str) -> pd.DataFrame:
        """The rows of ``agreement`` for each stratum of an attribute that is left out, by the ranking's own scheme."""
        wanted = pd.Series({"kind": "without", "attribute": attribute, "scheme": self.scheme.value})
        return self.agreement[(self.agreement[wanted.index] == wanted).all(axis=1)].set_index(
            "stratum"
        )


def rank_evaluations(
    evaluations: Mapping[str, Evaluation],
    options: RankOptions | None = None,
    *,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
    **given: Any,
) -> Ranking:
    """Rank teams by evaluations of the same cases.

    Fields of `RankOptions` may be given in place of its own.
    """
    options = replace(options or RankOptions(), **given)
    aggregate_only = options.aggregate_only
    entries = read_entries(evaluations, by=options.by, intersect=options.intersect)
    samples = _bootstrap(entries.contest, options.n_resamples, options.seed, progress)
    found = _rankings(entries)
    full = {
        about.scheme: overall_ranks(scores)
        for about, scores in found.items()
        if about.kind == "all"
    }
    # Equal teams by the mean of their ranks over all schemes, then as they were given.
    order = np.lexsort((np.mean(list(full.values()), axis=0), full[options.scheme.value])).tolist()
    teams = tuple(entries.teams[place] for place in order)
    record = {
        "scheme": options.scheme.value,
        "by": list(entries.strata),
        "intersect": options.intersect,
        "n_resamples": options.n_resamples,
        "seed": options.seed,
        "patient": entries.patient,
        "aggregate_only": aggregate_only,
        "level": LEVEL,
    }
    return Ranking(
        teams=teams,
        tasks=entries.tasks,
        options=options,
        strata={
            name: {s: int(inside.sum()) for s, inside in of_name}
            for name, of_name in entries.strata.items()
        },
        n_cases=len(entries.cases),
        n_units=entries.contest.n_units,
        ranks=_rank_table(entries, found, order),
        agreement=_agreement_table(found, full),
        bootstrap=_bootstrap_table(entries, samples, full, order),
        taus=_tau_table(samples),
        tests=_test_table(entries, order),
        cases=None if aggregate_only else _case_table(entries),
        case_names=() if aggregate_only else entries.cases,
        values=None if aggregate_only else entries.values[:, order],
        about={
            "versions": versions("numpy", "pandas", "scipy"),
            "options": record,
            "in_pixels": in_pixels(next(iter(evaluations.values())).scores),
            "definitions": {s.value: text for s, text in DEFINITIONS.items()}
            | {
                metric: METRICS[metric].definition
                for metric in dict.fromkeys(task.metric for task in entries.tasks)
            },
        },
        notes=entries.notes if aggregate_only else (*entries.notes, *entries.notes_on_cases),
    )


class _About(NamedTuple):
    """What is ranked, and how, in the first columns of the tables."""

    kind: str
    attribute: str
    stratum: str
    n: int
    scheme: str


def _rankings(entries: Entries) -> dict[_About, FloatArray]:
    """The scores of every ranking, shape (n_tasks, n_teams)."""
    contest = entries.contest
    n_cases = len(entries.cases)
    found = {}
    for scheme in RankingScheme:
        found[_About("all", ALL, ALL, n_cases, scheme.value)] = task_scores(contest, scheme)[0]
        for attribute, strata in entries.strata.items():
            of_strata = [task_scores(contest.of_cases(inside), scheme)[0] for _, inside in strata]
            for (stratum, inside), scores in zip(strata, of_strata, strict=True):
                found[_About("stratum", attribute, stratum, int(inside.sum()), scheme.value)] = (
                    scores
                )
            found[_About("worst", attribute, "", n_cases, scheme.value)] = worst_scores(
                np.stack(of_strata)
            )
            for stratum, inside in strata if len(strata) > 1 else ():
                scores = task_scores(contest.of_cases(~inside), scheme)[0]
                found[_About("without", attribute, stratum, int((~inside).sum()), scheme.value)] = (
                    scores
                )
    return found


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


def _rank_table(
    entries: Entries, found: Mapping[_About, FloatArray], order: Sequence[int]
) -> pd.DataFrame:
    signs = {
        RankingScheme.TEST.value: 1.0,
        RankingScheme.RANK_MEAN.value: -1.0,
        RankingScheme.RANK_MEDIAN.value: -1.0,
    }
    rows: list[tuple[Any, ...]] = []
    for about, of_tasks in found.items():
        by_task = ranks_of(of_tasks)
        overall = overall_ranks(of_tasks)
        mean = -consensus(by_task)
        rows += [(*about, OVERALL, OVERALL, entries.teams[t], mean[t], overall[t]) for t in order]
        for task, scores, ranks in zip(entries.tasks, of_tasks, by_task, strict=True):
            # + 0.0 turns -0.0 into 0.0.
            shown = signs.get(about.scheme, task.sign) * scores + 0.0
            rows += [
                (*about, task.metric, task.label, entries.teams[t], shown[t], ranks[t])
                for t in order
            ]
    return pd.DataFrame(rows, columns=list(RANK_COLUMNS))


def _agreement_table(
    found: Mapping[_About, FloatArray], full: Mapping[str, FloatArray]
) -> pd.DataFrame:
    others = {
        about: overall_ranks(scores) for about, scores in found.items() if about.kind != "all"
    }
    rows = [
        (*about, float(kendall_tau(ranks[None], full[about.scheme])[0]))
        for about, ranks in others.items()
    ]
    return pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))


def _bootstrap_table(
    entries: Entries,
    samples: Mapping[RankingScheme, Stability],
    full: Mapping[str, FloatArray],
    order: Sequence[int],
) -> pd.DataFrame:
    rows = [
        (
            scheme.value,
            entries.teams[t],
            full[scheme.value][t],
            of.low[t],
            of.median[t],
            of.high[t],
            *of.shares[t],
        )
        for scheme, of in samples.items()
        for t in order
    ]
    shares = [f"share_{place + 1}" for place in range(len(entries.teams))]
    return pd.DataFrame(rows, columns=[*BOOTSTRAP_COLUMNS, *shares])


def _tau_table(samples: Mapping[RankingScheme, Stability]) -> pd.DataFrame:
    rows = []
    for scheme, of in samples.items():
        taus = of.taus[~np.isnan(of.taus)]
        numbers = (
            (taus.mean(), *np.quantile(taus, (0.5, 0.025, 0.975))) if len(taus) else (np.nan,) * 4
        )
        rows.append((scheme.value, *(float(number) for number in numbers)))
    return pd.DataFrame(rows, columns=["scheme", "mean", "median", "low", "high"])


def _test_table(entries: Entries, order: Sequence[int]) -> pd.DataFrame:
    p = pairwise_p(entries.contest)
    differences, first, second = entries.contest.unit_differences
    n = np.zeros(p.shape, dtype=np.int64)
    n[:, first, second] = n[:, second, first] = (~np.isnan(differences)).sum(axis=2)
    better, worse = np.transpose([(i, j) for i in order for j in order if i != j])
    teams = np.array(entries.teams, dtype=object)
    parts = []
    for task, of_task, n_of_task in zip(
        entries.tasks, p[:, better, worse], n[:, better, worse], strict=True
    ):
        names = {
            "metric": task.metric,
            "label": task.label,
            "better": teams[better],
            "worse": teams[worse],
        }
        parts.append(
            pd.DataFrame(names | {"n": n_of_task, "wilcoxon_p": of_task, "holm_p": holm(of_task)})
        )
    table = pd.concat(parts, ignore_index=True)
    return table.assign(significant=table["holm_p"] <= LEVEL)


def _case_table(entries: Entries) -> pd.DataFrame:
    labels = list(dict.fromkeys(task.label for task in entries.tasks))
    stratum_of = {
        attribute: np.select([inside for _, inside in strata], [name for name, _ in strata], "")
        for attribute, strata in entries.strata.items()
    }
    parts = []
    for label in labels:
        columns: dict[str, Any] = {"case": entries.cases, "label": label}
        for number, task in enumerate(entries.tasks):
            if task.label != label:
                continue
            values = entries.contest.filled[number]
            for name, statistic in (("best", values.max), ("worst", values.min)):
                columns[f"{task.metric}_{name}"] = task.sign * statistic(axis=0) + 0.0
            columns[f"{task.metric}_median"] = task.sign * np.median(values, axis=0) + 0.0
            columns[f"{task.metric}_undefined"] = np.isneginf(entries.contest.goodness[number]).sum(
                axis=0
            )
        columns |= {
            f"{a} (stratum)" if a in columns else a: of_case for a, of_case in stratum_of.items()
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts).sort_values("case", kind="stable", ignore_index=True)
