"""Liger's kernels: where they are refused, and which of them a task uses."""

from __future__ import annotations

import pytest

from training.job.compilation import liger
from training.job.processes.reporting import Unsupported


def test_they_need_a_gpu() -> None:
    with pytest.raises(Unsupported, match=r"^kernels liger needs an NVIDIA GPU, but this job runs on cpu: use"):
        liger.check("cpu")
    liger.check("cuda")


def test_a_task_or_model_type_without_kernels_has_none() -> None:
    assert liger.options(predicts_tokens=True) == {"cross_entropy": False}
    assert liger.options(predicts_tokens=False) == {"cross_entropy": False, "fused_linear_cross_entropy": False}
    liger.check_model_type("llama", {"llama": None})
    with pytest.raises(Unsupported, match="kernels liger does not support model type 'bert', only decoders such as"):
        liger.check_model_type("bert", {"llama": None})
