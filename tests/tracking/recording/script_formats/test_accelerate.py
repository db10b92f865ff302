"""Evaluations of accelerate's examples."""

from __future__ import annotations

from tracking.recording.script_formats.accelerate import Accelerate


def test_evaluations_are_read() -> None:
    format = Accelerate()
    logged = format.read("11/25/2026 02:29:54 - INFO - __main__ - [RANK 0] epoch 0: {'accuracy': 0.116, 'f1': 0.5}")
    assert logged is not None
    assert logged.values == {"eval_accuracy": 0.116, "eval_f1": 0.5}
    assert logged.is_evaluation
    assert logged.step is None
    typed = format.read("epoch 2: {'accuracy': np.float64(0.25)}")
    assert typed is not None
    assert typed.values == {"eval_accuracy": 0.25}
    assert format.read("epoch 2: 5 of 9") is None
    assert format.read("epoch 2: {'name': 'x'}") is None
