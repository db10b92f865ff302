"""Draws of an evaluation do not change the draws of the training."""

from __future__ import annotations

import random

import numpy as np
import torch

from training.job.loop.job_trainer import preserve_random_states


def draws() -> list[float]:
    return [random.random(), float(np.random.rand()), float(torch.rand(()))]


def test_draws_inside_do_not_change_later_ones() -> None:
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    with preserve_random_states():
        first = draws()
    assert draws() == first
