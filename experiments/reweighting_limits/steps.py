"""The steps with which two ways to weight examples converge on small problems."""

from collections.abc import Mapping

import numpy as np

from experiments.reweighting_limits.losses import FloatArray, logistic_loss

#: The largest step is one of these, a quarter of an octave apart.
STEPS: FloatArray = 2.0 ** np.arange(-1, 5.25, 0.25)
#: Examples, their dimensions, units of the network, examples per step, and steps.
N = 20
D = 10
UNITS = 128
BATCH = 4
LENGTH = 1000
#: The norm of the gradient of the KL loss that must be reached.
NORM = 0.01
#: Name of a step alpha of weights learnt from trusted examples to it, from the batch n, L and
#: sigma^2.
LIMITS = {
    "as printed": lambda n, smooth, square: 2 * n / (smooth * square),
    "n times smaller": lambda n, smooth, square: 2 / (smooth * square),
    "2n times smaller": lambda n, smooth, square: 1 / (smooth * square),
}


def largest_step(beta: float, seed: int, *, stale: bool, length: int = LENGTH) -> float:
    """The largest of `STEPS` with which SGD with hardness weighted sampling converges, in octaves.

    The hidden weights of a ReLU network are trained on (f - y)^2 / 2 of random examples of length
    1. Batches are drawn, with replacement, by the softmax of beta times the losses: exact ones, or
    those when each was last drawn, which begin exact. One converges if the norm of the gradient of
    the KL loss is at most `NORM` after the last step. NaN if none does.

    Source: Fidon et al. 2020, Theorems B.1 and B.2.
    """
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(N, D))
    targets = rng.choice([-1.0, 1.0], size=N)
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    signs = rng.choice([-1.0, 1.0], size=UNITS) / np.sqrt(UNITS)
    weights = np.repeat(rng.normal(size=(1, UNITS, D)), len(STEPS), axis=0)
    rows = np.arange(len(STEPS))[:, None]

    def errors(examples: FloatArray, wanted: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Errors, and the derivatives of the outputs by the sums of the units; for each step."""
        sums = examples @ weights.swapaxes(1, 2)
        return np.maximum(sums, 0) @ signs - wanted, (sums > 0) * signs

    # Steps that are too large end in overflow.
    with np.errstate(all="ignore"):
        losses = errors(inputs, targets)[0] ** 2 / 2
        for _ in range(length):
            if not stale:
                losses = errors(inputs, targets)[0] ** 2 / 2
            # The largest of these is a draw by the softmax; all steps and betas have the same
            # random numbers.
            drawn = (beta * losses[:, None] + rng.gumbel(size=(BATCH, N))).argmax(axis=2)
            batch = inputs[drawn]
            wrong, slopes = errors(batch, targets[drawn])
            losses[rows, drawn] = wrong**2 / 2
            gradient = (wrong[..., None] * slopes).swapaxes(1, 2) @ batch
            weights -= STEPS[:, None, None] / BATCH * gradient

        wrong, slopes = errors(inputs, targets)
        pulls = np.exp(beta * (wrong**2 - (wrong**2).max(axis=1, keepdims=True)) / 2)
        pulls *= wrong / pulls.sum(axis=1, keepdims=True)
        gradient = (pulls[..., None] * slopes).swapaxes(1, 2) @ inputs
        converged = STEPS[np.linalg.norm(gradient, axis=(1, 2)) <= NORM]
    if len(converged) == 0:
        return float("nan")
    return float(np.log2(converged.max()))


def trusted_loss(
    images: FloatArray,
    targets: FloatArray,
    n_trusted: int,
    seed: int,
    *,
    limit: str,
    length: int = 3000,
) -> Mapping[str, float]:
    """What the logistic loss G of the trusted examples does while weights are learnt from them.

    theta <- theta - alpha / n sum_i max(<grad G, grad f_i>, 0) grad f_i

    for a linear model, with alpha at a limit: ``limit`` of `LIMITS`; otherwise the weights of
    Algorithm 1, which sum to 1, with alpha / n of 1 / L. The first ``n_trusted`` of the images
    (n, d) are trusted, targets are 1 and -1.

    Returns:
        ``rises``, the share of the steps after which G is larger, in per cent, ``exponent``, that
        of the smallest ||grad G||^2 so far against the steps T, from a thirtieth of them to the
        last, and ``of the bound``, the largest ratio of the former to C / sqrt(T) in per cent,
        where C^2 = G_0 / (p kappa), kappa = alpha / n (1 - L alpha sigma^2 / 2), by Jensen's
        inequality, and p the chance of an image to be in a batch; NaN where kappa is not above 0.

    Source: Ren et al. 2018, Lemma 1 with eq. (30), and Theorem 2.
    """
    n = min(100, len(images))
    smooth = np.linalg.norm(images[:n_trusted], 2) ** 2 / n_trusted / 4
    square = (images**2).sum(axis=1).max()
    step = 1 / smooth
    kappa = 0.0
    if limit in LIMITS:
        step = LIMITS[limit](n, smooth, square) / n
        kappa = step * (1 - smooth * square * step * n / 2)

    values, squares = _descend_by_trusted(
        images,
        targets,
        n_trusted,
        np.random.default_rng(seed),
        step=step,
        are_normalised=limit not in LIMITS,
        length=length,
    )
    least = np.minimum.accumulate(squares)
    first = length // 30
    exponent = np.log(least[-1] / least[first - 1]) / np.log(length / first)
    constant = np.nan
    if kappa > 1e-12 * step:
        constant = np.sqrt(values[0] * len(images) / n / kappa)
    largest_ratio = (least * np.sqrt(np.arange(1, length + 1))).max() / constant
    rises = 100 * float((np.diff(values) > 0).mean())
    return {
        "rises": rises,
        "exponent": float(exponent),
        "of the bound": float(100 * largest_ratio),
    }


def _descend_by_trusted(
    images: FloatArray,
    targets: FloatArray,
    n_trusted: int,
    rng: np.random.Generator,
    *,
    step: float,
    are_normalised: bool,
    length: int,
) -> tuple[list[float], list[float]]:
    """G and ||grad G||^2 before each step of `trusted_loss`, whose ``step`` is alpha / n."""
    n = min(100, len(images))
    trusted = images[:n_trusted]
    theta = np.zeros(images.shape[1])
    values = []
    squares = []
    for _ in range(length):
        losses, slopes = logistic_loss((trusted @ theta)[None], targets[:n_trusted])
        gradient = slopes[0] @ trusted / n_trusted
        values.append(losses.mean())
        squares.append(gradient @ gradient)

        rows = rng.choice(len(images), n, replace=False)
        batch = images[rows]
        _, slopes = logistic_loss((batch @ theta)[None], targets[rows])
        pulls = slopes[0]
        weights = np.maximum(pulls * (batch @ gradient), 0)
        if are_normalised:
            weights /= weights.sum() or 1
        theta = theta - step * (weights * pulls) @ batch
    return values, squares
