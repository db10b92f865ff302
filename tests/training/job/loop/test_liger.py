"""Liger's kernels: which models have them, and which of them a task uses."""

from __future__ import annotations

import pytest

from training.job.loop.prepared_model import check_liger_type, liger_options
from training.job.processes.reporting import Unsupported


def test_a_task_or_model_type_without_kernels_has_none() -> None:
    assert liger_options(predicts_tokens=True) == {"cross_entropy": False}
    assert liger_options(predicts_tokens=False) == {"cross_entropy": False, "fused_linear_cross_entropy": False}
    check_liger_type("llama", {"llama": None})
    with pytest.raises(Unsupported, match="kernels liger does not support model type 'bert', only decoders such as"):
        check_liger_type("bert", {"llama": None})
