"""The types of arrays, by what they hold."""

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.intp]  # of places, or the numbers of what something belongs to
Int64Array = npt.NDArray[np.int64]
