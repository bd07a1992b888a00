"""How well the hardness of cases separates two groups of them."""

import pandas as pd


def harder(some: "pd.Series[float]", others: "pd.Series[float]") -> float:
    """The probability that one of some values is larger than one of the others; equal ones count half.

    Args:
        some: Shape (n,).
        others: Shape (m,).

    Returns:
        The probability (0.5: no difference); NaN if one of the two is empty.
    """
    if not (len(some) and len(others)):
        return float("nan")
    ranks = pd.concat([some, others]).rank().to_numpy()
    return float((ranks[: len(some)].sum() - len(some) * (len(some) + 1) / 2) / (len(some) * len(others)))
