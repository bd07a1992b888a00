"""Whether some cases score lower than the others: sums of ranks under permutations of the patients.

Patients with equally many cases change places as a whole. So nothing is assumed of how alike the
cases of a patient are, nor of the shape of the scores, and ties are no matter. With one case per
patient this is the Wilcoxon-Mann-Whitney test with the distribution of its permutations.

Everywhere, ``ranks`` are those of n cases, 1 for the worst, and ``blocks`` come from
`patients_by_size`.
"""

import itertools

import numpy as np

from nnunet_dro.arrays import BoolArray, FloatArray, IndexArray

#: Random permutations of a test; the least p value is 1 / (N_PERMUTATIONS + 1).
N_PERMUTATIONS = 9_999

#: The most cases in an array of permutations at a time.
_MOST_CELLS = 1 << 21


def patients_by_size(patients: IndexArray) -> list[IndexArray]:
    """Put together the patients that have equally many cases.

    Args:
        patients: The number of each case's patient, shape (n,).

    Returns:
        A block for every number k of cases that a patient has, smallest first: the places of the
        cases, shape (n_patients, k).
    """
    order = np.argsort(patients, kind="stable")
    _, starts, sizes = np.unique(patients[order], return_index=True, return_counts=True)

    blocks = []
    for k in np.unique(sizes):
        first = starts[sizes == k, None]
        blocks.append(order[first + np.arange(k)])
    return blocks


def standardised(
    groups: IndexArray, n_groups: int, ranks: FloatArray, blocks: list[IndexArray]
) -> FloatArray:
    """How low the ranks of each group's cases are, in standard deviations of the permutations.

    z = (S - E[S]) / sd[S], with S the sum of the ranks of a group's cases. With the patients i of
    one size, their membership m_i and ranks r_i (vectors over their cases), and dashes for means
    over the N patients,

        E[S]   = N m' . r',
        Var[S] = <sum (m_i - m')(m_i - m')^T, sum (r_i - r')(r_i - r')^T> / (N - 1),

    added up over the sizes.

    Args:
        groups: The number of each case's group, shape (n,); a case of a negative one is in none.
        n_groups: How many groups there are.
        ranks: Of the n cases.
        blocks: Of their patients.

    Returns:
        z, shape (n_groups,); 0 where permutations change nothing.

    Source: Hoeffding 1951, A combinatorial central limit theorem (mean and variance).
    """
    inside = groups >= 0
    excess = np.bincount(groups[inside], weights=ranks[inside], minlength=n_groups)
    variance = np.zeros(n_groups)
    for block in blocks:
        # Of every patient of the block, shape (n_patients, k).
        group = groups[block]
        rank = ranks[block]
        n_patients, k = block.shape

        # N m' is how many of the patients are in a group with their case a.
        counts = [_counts(group[:, a], n_groups) for a in range(k)]
        excess -= sum(counts[a] * rank[:, a].mean() for a in range(k))
        if n_patients == 1:
            continue

        # The inner product of the two sums of outer products, entry by entry.
        centred = rank - rank.mean(axis=0)
        for a, b in itertools.product(range(k), repeat=2):
            both = np.where(group[:, a] == group[:, b], group[:, a], -1)
            together = _counts(both, n_groups) - counts[a] * counts[b] / n_patients
            variance += together * float(centred[:, a] @ centred[:, b]) / (n_patients - 1)

    # What rounding leaves of a variance of zero is no variance.
    moves = variance > 1e-9 * max(1.0, float(ranks.max(initial=0)))
    return np.divide(
        excess,
        np.sqrt(variance, where=moves, out=np.ones(n_groups)),
        where=moves,
        out=np.zeros(n_groups),
    )


def _counts(groups: IndexArray, n_groups: int) -> IndexArray:
    return np.bincount(groups[groups >= 0], minlength=n_groups)


def p_lower(
    inside: BoolArray,
    ranks: FloatArray,
    blocks: list[IndexArray],
    *,
    rng: np.random.Generator,
    n_permutations: int = N_PERMUTATIONS,
) -> float:
    """One-sided p value of the hypothesis that some cases score as the others do.

    The alternative is that they score lower.

    p = (1 + #{S_b <= S}) / (1 + B), with S the sum of the ranks inside and S_b that of the b-th of
    B random permutations. It is valid for every size of the sample, and with ties; 1 where no
    permutation changes anything.

    Source: Phipson and Smyth 2010, Permutation p-values should never be zero.
    """
    sums = np.zeros(n_permutations)
    for block in blocks:
        members = inside[block].astype(np.float64)
        places = np.arange(len(block))
        step = max(1, _MOST_CELLS // block.size)

        # As many permutations at a time as memory holds.
        for start in range(0, n_permutations, step):
            stop = min(start + step, n_permutations)
            drawn = rng.permuted(np.tile(places, (stop - start, 1)), axis=1)
            sums[start:stop] += np.einsum("bik,ik->b", members[drawn], ranks[block])

    # Ranks are multiples of one half, so that sums are exact.
    n_as_low = int((sums <= float(ranks[inside].sum())).sum())
    return (1 + n_as_low) / (1 + n_permutations)


def share_lower(inside: BoolArray, ranks: FloatArray) -> float:
    """How often a case inside scores lower than one outside; equal scores count one half.

    It is 1 - U / (n_inside n_outside), with U of Mann and Whitney. There is a case inside and one
    outside.
    """
    n_inside = int(inside.sum())
    n_outside = int((~inside).sum())
    higher = float(ranks[inside].sum()) - n_inside * (n_inside + 1) / 2
    return 1 - higher / (n_inside * n_outside)
