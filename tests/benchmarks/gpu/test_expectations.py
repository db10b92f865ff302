"""Test the expectations of a job on a GPU, on events as jobs write them."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.gpu.paths import PATHS, Cards, GpuPath, differences
from benchmarks.support.command import Reported
from training.contract.events import Event
from training.contract.failures import Failure

T4 = Cards(kind="cuda", name="Tesla T4", count=1, capability=(7, 5), packages=frozenset())
BY_NAME = {path.name: path for path in PATHS}


def completed(
    path: GpuPath, loss: float = 1.0, mfu: float = 0.4, precision: str = "", device: str = "cuda"
) -> Reported:
    used = {"compile_scope": "layers", "compile_mode": "default", **path.job_fields()}
    used |= {"precision": precision} if precision else {}
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("start", {"device": {"kind": device, "count": path.processes}, "hyperparameters": used}),
        ("phase", {"phase": "compile" if path.is_compiled else "train"}),
        ("result", {"metrics": {"eval_loss": loss, "throughput/mfu": mfu}}),
    ]
    return Reported(failure=None, events=[Event(kind, at, 0.0, fields) for at, (kind, fields) in enumerate(kinds)])


@pytest.mark.parametrize(
    ("path", "reported", "sentence"),
    [
        ("fp32", {"device": "cpu"}, "it ran on cpu and not on cuda"),
        ("bf16", {"precision": "fp32"}, "precision was fp32 and not bf16"),
        ("sdpa", {"loss": 1.03}, "the evaluation loss is 1.0300; expected 1.0000 ± 0.02"),
        ("fp32", {"loss": float("nan")}, "the evaluation loss is nan"),
        ("fp32", {"mfu": 1.2}, "throughput/mfu is 1.2, which is not a share of the card's peak"),
    ],
)
def test_each_difference_is_one_sentence(path: str, reported: dict[str, Any], sentence: str) -> None:
    assert differences(BY_NAME[path], completed(BY_NAME[path], **reported), T4, 1.0) == [sentence]


def test_failures_are_expected_or_not() -> None:
    out_of_memory = Reported(failure=Failure("OutOfMemory", "CUDA out of memory"), events=())
    path = BY_NAME["out-of-memory"]
    assert differences(path, out_of_memory, T4, 1.0) == []
    assert differences(path, completed(path), T4, 1.0) == ["OutOfMemory was expected, but it completed"]
    [sentence] = differences(PATHS[0], out_of_memory, T4, None)
    assert sentence == "a completed job was expected, but it ended with OutOfMemory: CUDA out of memory"
