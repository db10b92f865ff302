"""Test the expectations of a job on a GPU, on events as jobs write them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.gpu.expectations import Reported, differences
from benchmarks.gpu.paths import OPTIONAL_PACKAGES, PATHS, TOO_LARGE, Cards, GpuPath
from training.contract.events import Event

T4 = Cards(kind="cuda", name="Tesla T4", count=1, capability=(7, 5), packages=frozenset())
H100 = replace(T4, name="NVIDIA H100", count=2, capability=(9, 0), packages=frozenset(OPTIONAL_PACKAGES))
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


def calibrated(**fits: bool) -> Reported:
    events = [
        Event("metric", at, 0.0, {"step": int(size[1:]), "values": {"calibration/fits": float(each)}})
        for at, (size, each) in enumerate(fits.items())
    ]
    return Reported(failure=None, events=events)


def test_a_job_as_expected_shows_no_differences() -> None:
    for path in PATHS:
        if not path.failure and not path.too_large:
            precision = "bf16" if path.name == "auto" else ""
            assert differences(path, completed(path, precision=precision), H100, 1.0) == [], path.name


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


def test_16_bits_may_differ_more_and_a_program_must_be_compiled() -> None:
    assert differences(BY_NAME["fp16"], completed(BY_NAME["fp16"], loss=1.03), T4, 1.0) == []
    path = BY_NAME["compile-layers"]
    uncompiled = completed(replace(path, is_compiled=False))
    assert differences(path, uncompiled, T4, 1.0) == ["nothing was compiled"]


def test_failures_are_expected_or_not() -> None:
    out_of_memory = Reported(failure=("OutOfMemory", "CUDA out of memory"), events=())
    path = BY_NAME["out-of-memory"]
    assert differences(path, out_of_memory, T4, 1.0) == []
    assert differences(path, completed(path), T4, 1.0) == ["OutOfMemory was expected, but it completed"]
    [sentence] = differences(PATHS[0], out_of_memory, T4, None)
    assert sentence == "a completed job was expected, but it ended with OutOfMemory: CUDA out of memory"


def test_a_calibration_finds_a_batch_that_does_not_fit() -> None:
    path = BY_NAME["calibration"]
    assert differences(path, calibrated(_32=True, **{f"_{TOO_LARGE}": False}), T4, None) == []
    assert differences(path, calibrated(_32=True, **{f"_{TOO_LARGE}": True}), T4, None) == [
        "batch size 1,500 was expected not to fit"
    ]
    assert differences(path, calibrated(_32=False), T4, None) == [
        "batch size 1,500 was expected not to fit",
        "no batch size fits",
    ]


def test_paths_that_a_machine_cannot_run_are_explained() -> None:
    reasons = {path.name: reason for path in PATHS if (reason := T4.reason_against(path))}
    assert reasons == {
        "bf16": "it needs compute capability 8.0, and Tesla T4 has 7.5",
        "flash-attention": "it needs compute capability 8.0, and Tesla T4 has 7.5",
        "fp8": "it needs compute capability 8.9, and Tesla T4 has 7.5",
        "fp8-compiled": "it needs compute capability 8.9, and Tesla T4 has 7.5",
        "liger": "it needs the package liger_kernel, which is not installed",
        "padding-free": "it needs compute capability 8.0, and Tesla T4 has 7.5",
        "two-gpus": "it needs 2 GPUs, and this machine has 1",
        "two-gpus-sharded": "it needs 2 GPUs, and this machine has 1",
        "sharded": "it needs compute capability 8.0, and Tesla T4 has 7.5",
    }
    assert not any(map(H100.reason_against, PATHS))
