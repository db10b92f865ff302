"""Leave for torch to read NumPy's random state, which every checkpoint holds."""

import numpy as np
import torch


def allow_numpy_states() -> None:
    """Tell torch that NumPy's arrays are safe to read.

    From 2.6 on it reads nothing else than tensors and plain values unless told so, and transformers before 4.48 does
    not tell it.
    """
    if hasattr(torch.serialization, "add_safe_globals"):
        make_array = np.empty(0).__reduce__()[0]
        torch.serialization.add_safe_globals([make_array, np.ndarray, np.dtype, type(np.dtype(np.uint32))])
