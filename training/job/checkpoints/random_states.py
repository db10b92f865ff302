"""States of all random number generators that a training uses."""

import random
import sys
from contextlib import contextmanager
from typing import Any, Iterator

import numpy as np
import torch


@contextmanager
def preserve_random_states() -> Iterator[None]:
    """Restore all random states on exit, so that draws inside the context have no effect on later draws."""
    python, numpy_state, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    gpu = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    xla = _xla_model().get_rng_state() if "torch_xla" in sys.modules else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy_state)
        torch.set_rng_state(cpu)
        if gpu is not None:
            torch.cuda.set_rng_state(gpu)
        if xla is not None:
            _xla_model().set_rng_state(xla)


def allow_numpy_states() -> None:
    """Let torch load NumPy's random state, which every checkpoint contains.

    Since version 2.6, torch loads only tensors and plain values, and classes that were declared safe. transformers
    before 4.48 does not declare NumPy's classes.
    """
    if hasattr(torch.serialization, "add_safe_globals"):
        make_array = np.empty(0).__reduce__()[0]
        torch.serialization.add_safe_globals([make_array, np.ndarray, np.dtype, type(np.dtype(np.uint32))])


def _xla_model() -> Any:
    import torch_xla.core.xla_model

    return torch_xla.core.xla_model
