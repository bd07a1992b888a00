"""The control of learning to reweight: weights that know nothing of the cases."""

import numpy as np
import torch
from torch import Tensor


def random_weights(n: int, rng: np.random.Generator) -> Tensor:
    """max(z, 0) / sum max(z, 0), z standard normal: the control of Ren et al. 2018, section 4.1.

    Where no z is above 0, which happens once in 2^n draws, all weights are 0 and the batch has no gradient.
    """
    z = np.maximum(rng.standard_normal(n), 0)
    return torch.from_numpy(z / max(z.sum(), np.finfo(float).tiny)).float()
