"""Precision, peaks and process age."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from training.job.measuring import hardware
from training.job.measuring.hardware import disable_cudnn_attention
from training.job.processes.reporting import Unsupported


def test_automatic_precision_fits_the_device() -> None:
    assert hardware.precision("bf16", "cpu") == "bf16"
    assert hardware.precision("auto", "cpu") in ("bf16", "fp32")
    with pytest.raises(Unsupported, match="fp16 needs a GPU"):
        hardware.precision("fp16", "cpu")


def test_the_longest_matching_name_gives_the_peak() -> None:
    assert hardware.peak_flops_per_second("NVIDIA L40S") == 362e12
    assert hardware.peak_flops_per_second("NVIDIA L4") == 121e12
    assert hardware.peak_flops_per_second("NVIDIA A10G") == 70e12
    assert hardware.peak_flops_per_second("Unknown") is None


def test_the_age_of_a_process_counts_from_its_start() -> None:
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); from training.job.measuring import hardware; "
        "time.sleep(0.5); print(hardware.process_age_seconds())"
    )
    began = time.monotonic()
    output = subprocess.check_output([sys.executable, "-c", code, str(Path(hardware.__file__).parents[3])])
    assert 0.5 <= float(output) <= time.monotonic() - began + 0.1


def test_cudnn_does_not_compute_attention() -> None:
    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        disable_cudnn_attention()
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        assert torch.backends.cuda.mem_efficient_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
