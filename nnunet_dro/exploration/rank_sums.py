"""Whether some cases score lower than the others: sums of ranks under permutations of the patients.

Patients with equally many cases change places as a whole. So nothing is assumed of how alike the
cases of a patient are, nor of the shape of the scores, and ties are no matter. With one case per
patient this is the Wilcoxon-Mann-Whitney test with the distribution of its permutations.

Everywhere, ``ranks`` are those of n cases, 1 for the worst, and ``blocks`` come from
`patients_by_size`.
"""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
CodeArray = npt.NDArray[np.intp]

N_PERMUTATIONS = (
    9_999  # Random permutations of a test; the least p value is 1 / (N_PERMUTATIONS + 1).
)
_MOST_CELLS = 1 << 21  # The most cases in an array of permutations at a time.


def patients_by_size(patients: CodeArray) -> list[CodeArray]:
    """For every number of cases k that a patient may have, the places of the cases, shape (n_patients, k)."""
    order = np.argsort(patients, kind="stable")
    _, starts, sizes = np.unique(patients[order], return_index=True, return_counts=True)
    return [order[starts[sizes == k, None] + np.arange(k)] for k in np.unique(sizes)]


def standardised(
    groups: CodeArray, n_groups: int, ranks: FloatArray, blocks: list[CodeArray]
) -> FloatArray:
    """How low the ranks of each group's cases are, in standard deviations of the permutations, shape (n_groups,).

    z = (S - E[S]) / sd[S], with S the sum of the ranks of a group's cases. With the patients i of
    one size, their membership m_i and ranks r_i (vectors over their cases), and dashes for means
    over patients,

        E[S] = N m' . r',    Var[S] = <sum (m_i - m')(m_i - m')^T, sum (r_i - r')(r_i - r')^T> / (N - 1),

    added up over the sizes. A case of a negative group is in none; z is 0 where permutations change
    nothing.

    Source: Hoeffding 1951, A combinatorial central limit theorem (mean and variance).
    """
    inside = groups >= 0
    excess = np.bincount(groups[inside], weights=ranks[inside], minlength=n_groups)
    variance = np.zeros(n_groups)
    for block in blocks:
        of_block = groups[block]
        of_ranks = ranks[block]
        n_patients, k = block.shape
        centred = of_ranks - of_ranks.mean(axis=0)
        counts = [_counts(of_block[:, a], n_groups) for a in range(k)]
        excess -= sum(counts[a] * of_ranks[:, a].mean() for a in range(k))
        if n_patients == 1:
            continue
        for a in range(k):
            for b in range(k):
                both = np.where(of_block[:, a] == of_block[:, b], of_block[:, a], -1)
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


def _counts(groups: CodeArray, n_groups: int) -> npt.NDArray[np.intp]:
    return np.bincount(groups[groups >= 0], minlength=n_groups)


def p_lower(
    inside: BoolArray,
    ranks: FloatArray,
    blocks: list[CodeArray],
    *,
    rng: np.random.Generator,
    n_permutations: int = N_PERMUTATIONS,
) -> float:
    """One-sided p value of the hypothesis that some cases score as the others do, against lower scores.

    p = (1 + #{S_b <= S}) / (1 + B), with S the sum of the ranks inside and S_b that of the b-th of
    B random permutations. It is valid for every size of the sample, and with ties; 1 where no
    permutation changes anything.

    Source: Phipson and Smyth 2010, Permutation p-values should never be zero.
    """
    sums = np.zeros(n_permutations)
    for block in blocks:
        members = inside[block].astype(np.float64)
        of_ranks = ranks[block]
        n_patients = len(block)
        step = max(1, _MOST_CELLS // block.size)
        for start in range(0, n_permutations, step):
            rows = slice(start, min(start + step, n_permutations))
            places = np.tile(np.arange(n_patients), (rows.stop - start, 1))
            drawn = rng.permuted(places, axis=1)
            sums[rows] += np.einsum("bik,ik->b", members[drawn], of_ranks)
    # Ranks are multiples of one half, so that sums are exact.
    n_as_low = int((sums <= float(ranks[inside].sum())).sum())
    return (1 + n_as_low) / (1 + n_permutations)


def share_lower(inside: BoolArray, ranks: FloatArray) -> float:
    """How often a case inside scores lower than one outside; equal scores count one half.

    NaN without a case.
    """
    n_inside = int(inside.sum())
    n_outside = int((~inside).sum())
    if not n_inside or not n_outside:
        return float("nan")
    higher = float(ranks[inside].sum()) - n_inside * (n_inside + 1) / 2
    return 1 - higher / (n_inside * n_outside)
