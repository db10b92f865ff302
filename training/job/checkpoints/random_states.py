"""The states of every source of random numbers that a training draws from."""

import random
from contextlib import contextmanager
from typing import Iterator

import numpy as np
import torch


@contextmanager
def random_states_kept() -> Iterator[None]:
    """Draw random numbers inside; afterwards all is as if none had been drawn."""
    python, numpy_state, processor = random.getstate(), np.random.get_state(), torch.get_rng_state()
    gpu = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    yield
    random.setstate(python)
    np.random.set_state(numpy_state)
    torch.set_rng_state(processor)
    if gpu is not None:
        torch.cuda.set_rng_state(gpu)
