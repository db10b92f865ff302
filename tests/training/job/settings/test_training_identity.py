"""Checkpoints of earlier versions, which did not record every setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from reporting.errors import ArgumentError
from settings.training_identity import check_same


def test_a_checkpoint_without_kernels_used_those_of_torch() -> None:
    check_same(Path("checkpoint-1"), {"seed": 1}, {"seed": 1, "kernels": "torch"})
    with pytest.raises(ArgumentError, match="kernels was 'torch' and is 'liger'"):
        check_same(Path("checkpoint-1"), {"seed": 1}, {"seed": 1, "kernels": "liger"})
