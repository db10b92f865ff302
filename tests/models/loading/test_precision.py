"""The precision of predictions, and the sentence that reports it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from models.loading.precision import Precision, choose_precision, native_precision, precision_message
from tests.conftest import ROOT
from training.contract.errors import InputError


@pytest.mark.parametrize(
    ("requested", "evaluated", "expected"),
    [
        (None, "fp32", "fp32"),
        (None, "bf16", "bf16"),
        ("auto", "bf16", "bf16"),
        ("auto", None, "fp32"),
        ("auto", "fp16", "fp32"),
        ("fp32", "bf16", "fp32"),
        ("bf16", "fp32", "bf16"),
    ],
)
def test_the_precision_is_the_requested_or_evaluated_one(
    requested: str | None, evaluated: str | None, expected: str
) -> None:
    assert choose_precision(requested, evaluated, "cpu") == Precision(expected)


def test_the_fastest_precision_is_a_native_one_of_the_whole_model() -> None:
    native = native_precision("cpu")
    assert native in ("fp32", "bf16")
    fastest = choose_precision("fastest", "fp32", "cpu")
    assert fastest == Precision(native, is_whole=True)
    assert str(fastest) == f"fastest ({native})"


def test_the_fastest_precision_of_a_cpu_is_measured() -> None:
    """oneDNN hides the instructions for bf16 from PyTorch, which then emulates it."""
    code = "from models.loading.precision import native_precision; print(native_precision('cpu'))"
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("fp32\n", "")


def test_an_unknown_or_impossible_precision_is_refused() -> None:
    with pytest.raises(InputError, match="precision is 'fp8': it must be one of auto, fastest, fp32, bf16, fp16"):
        choose_precision("fp8", None, "cpu")
    with pytest.raises(InputError, match="precision is 'fp16', which needs a GPU"):
        choose_precision("fp16", "fp16", "cpu")


@pytest.mark.parametrize(
    ("requested", "evaluated", "message"),
    [
        (None, "fp32", "Precision: fp32, as in the evaluation."),
        ("auto", "fp16", "Precision: fp32, because fp16, the evaluation's, needs a GPU."),
        (None, None, "Precision: fp32; the evaluation's is unknown."),
        ("bf16", "fp32", "Precision: bf16; the evaluation was in fp32."),
    ],
)
def test_the_precision_is_reported_with_its_reason(requested: str | None, evaluated: str | None, message: str) -> None:
    assert precision_message(requested, evaluated, "cpu") == message


def test_a_slow_precision_is_reported_as_slow() -> None:
    message = precision_message(None, "bf16", "cpu")
    assert message.startswith("Precision: bf16, as in the evaluation.")
    assert ("--precision fastest" in message) == (native_precision("cpu") == "fp32")
