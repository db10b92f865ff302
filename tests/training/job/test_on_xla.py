"""The path of `compiler: neuron` on PyTorch/XLA, whose device is this machine's CPU.

It needs an interpreter with torch_xla, which no environment of ours has. The versions are those of AWS's image:

    python -m venv /tmp/xla
    /tmp/xla/bin/pip install torch==2.8.0 torch_xla==2.8.0 transformers==4.55.4 accelerate==1.8.1 pyarrow boto3
    XLA_PYTHON=/tmp/xla/bin/python .venv/bin/python -m pytest tests/training/job/test_on_xla.py

Neuron's compiler, its cache and exchanges between Neuron cores are not part of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.support.job.job_process import JOB, TORCHRUN, Ended

PYTHON = os.environ.get("XLA_PYTHON", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="XLA_PYTHON is not set: it names an interpreter with torch_xla"),
]
NEURON = {"compiler": "neuron", "padding": "max_length", "save_strategy": "steps", "save_steps": 4}
CONNECTED = r"""
import os, sys
sys.path.insert(0, sys.argv[1])
import torch_xla
from processes import ranks, xla_processes
xla_processes.connect()
import torch
flag = ranks.shared_flag()
flag.raised_before(ranks.rank() == 1)
values = [ranks.gather(ranks.rank()), ranks.sum_over_processes([1.0, ranks.rank()], "xla"), flag.raised_before(False)]
ranks.wait_for_all()
sys.stdout.write(f"connected {torch.distributed.get_backend()} {values}\n")
sys.stdout.flush()
os._exit(0)  # Shutting down Python can abort the process (see train.py).
"""


def without_dropout(model: Path, folder: Path) -> Path:
    """Return a copy of the model without dropout, whose random numbers differ between devices."""
    shutil.copytree(model, folder)
    config = json.loads((folder / "config.json").read_text())
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config | still))
    return folder


def trained(job: Any, model: Path, *, on_xla: bool, **arguments: Any) -> Ended:
    job.environment |= {"SM_CHANNEL_MODEL": str(model), "PJRT_DEVICE": "CPU"}
    ended: Ended = job.run(python=[PYTHON] if on_xla else None, learning_rate=1e-3, **arguments)
    assert ended.code == 0, ended.output[-3000:]
    return ended


@dataclass(frozen=True)
class Trained:
    """One training on XLA, with its checkpoints, and the same one without XLA."""

    model: Path
    checkpoints: Path
    xla: Ended
    native: Ended


@pytest.fixture(scope="module")
def both(job_in: Callable[[Path], Any], tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("xla")
    model, checkpoints = without_dropout(tiny_model, folder / "model"), folder / "checkpoints"
    job = job_in(folder / "xla")
    job.environment["SM_CHECKPOINT_DIR"] = str(checkpoints)
    xla = trained(job, model, on_xla=True, precision="fp32", **NEURON)
    # Rows that are padded to one length have another order.
    native = trained(job_in(folder / "native"), model, on_xla=False, padding="max_length")
    return Trained(model, checkpoints, xla, native)


def test_a_training_on_xla_gives_the_losses_of_a_cpu(both: Trained) -> None:
    assert len(both.xla.losses) == 7
    assert both.xla.losses == pytest.approx(both.native.losses, abs=2e-4)
    results = [ended.result["metrics"] for ended in (both.xla, both.native)]
    assert results[0]["eval_loss"] == pytest.approx(results[1]["eval_loss"], abs=2e-4)
    assert results[0]["eval_accuracy"] == results[1]["eval_accuracy"]


def test_rows_devices_and_programs_are_reported(both: Trained) -> None:
    result, metrics = both.xla.result, both.xla.result["metrics"]
    assert both.xla.events("start")[0]["device"] == {"kind": "xla", "name": "CPU", "count": 1}
    assert metrics["eval_samples_per_second"] * metrics["eval_runtime"] == pytest.approx(13, rel=0.01)
    assert metrics["train_samples_per_second"] * metrics["train_runtime"] == pytest.approx(50, rel=0.01)
    assert metrics["compile/graphs"] >= 3
    assert metrics["compile/seconds"] > 0
    # XLA's CPU has no cache of Neuron.
    assert result["cache_state"] == "cold"
    assert {str(values.dtype) for values in weights(both.xla).values()} == {"float32"}


def test_a_training_resumes_from_its_checkpoint(both: Trained, new_job: Callable[[str], Any], tmp_path: Path) -> None:
    shutil.copytree(both.checkpoints / "checkpoint-4", tmp_path / "kept" / "checkpoint-4")
    job = new_job("resumed")
    job.environment["SM_CHECKPOINT_DIR"] = str(tmp_path / "kept")
    resumed = trained(job, both.model, on_xla=True, precision="fp32", **NEURON)
    assert resumed.events("start")[0]["resumed_from_step"] == 4
    assert resumed.losses == both.xla.losses[4:]
    expected = weights(both.xla)
    assert all(np.array_equal(values, expected[name]) for name, values in weights(resumed).items())


def test_automatic_precision_is_bf16(both: Trained, job: Any) -> None:
    bf16 = trained(job, both.model, on_xla=True, precision="auto", **{**NEURON, "save_strategy": "none"})
    settings = bf16.events("start")[0]["hyperparameters"]
    assert (settings["precision"], settings["attention"]) == ("bf16", "eager")
    assert bf16.losses != both.xla.losses
    assert bf16.losses == pytest.approx(both.xla.losses, abs=0.02)


def test_processes_of_torchrun_connect_and_exchange_values_on_their_cpus() -> None:
    command = [PYTHON, *TORCHRUN, "--no-python", PYTHON, "-c", CONNECTED, str(JOB)]
    done = subprocess.run(
        command, env={**os.environ, "PJRT_DEVICE": "CPU"}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("connected xla [[0, 1], [2.0, 1.0], True]") == 2


def weights(ended: Ended) -> dict[str, Any]:
    return dict(load_file(ended.folder / "model" / "model.safetensors"))
