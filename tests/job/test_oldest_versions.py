"""The job under the oldest versions that it promises: those of the last image of SageMaker Training Compiler.

Several processes are not tried: transformers 4.21 has them on GPUs alone.

    python3.8 -m venv /tmp/oldest
    /tmp/oldest/bin/pip install torch==1.11.0 transformers==4.21.1 'pyarrow<12' 'numpy<1.24'
    TRAINFARE_OLDEST_PYTHON=/tmp/oldest/bin/python make test-slow
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

PYTHON = os.environ.get("TRAINFARE_OLDEST_PYTHON", "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="TRAINFARE_OLDEST_PYTHON names no Python with the oldest versions"),
]


@pytest.fixture
def old_job(job: Any, tmp_path: Path) -> Any:
    """A job whose model is written as it was then."""
    import torch
    from safetensors.torch import load_file

    model = tmp_path / "model of then"
    shutil.copytree(job.environment["SM_CHANNEL_MODEL"], model)
    torch.save(load_file(model / "model.safetensors"), model / "pytorch_model.bin")
    (model / "model.safetensors").unlink()
    job.environment["SM_CHANNEL_MODEL"] = str(model)
    return job


def test_a_whole_training(old_job: Any) -> None:
    ended = old_job.run([PYTHON], padding="buckets", bucket_lengths="6,12", epochs=2, eval_strategy="epoch")
    result = ended.result
    assert ended.events("start")[0]["versions"]["transformers"].startswith("4.21")
    losses = [event for event in ended.events("metric") if "loss" in event["values"]]
    assert [(e["step"], e["samples"]) for e in losses][-2:] == [(13, 98), (14, 100)]
    assert result["metrics"]["throughput/steady_steps"] == 11
    assert result["metrics"]["eval_accuracy"] >= 0
    assert (old_job.folder / "model/pytorch_model.bin").exists()


def test_it_goes_on_from_a_checkpoint(old_job: Any) -> None:
    old_job.environment["SM_CHECKPOINT_DIR"] = str(old_job.folder / "checkpoints")
    arguments = {"save_strategy": "steps", "save_steps": 2, "padding": "longest", "lr_scheduler": "constant"}
    first = old_job.run([PYTHON], max_steps=10, **arguments)
    for step in (10, 8, 6):
        shutil.rmtree(old_job.folder / f"checkpoints/checkpoint-{step}")
    again = old_job.run([PYTHON], max_steps=10, **arguments)
    assert again.events("start")[-1]["resumed_from_step"] == 4
    assert first.losses[4:10] == again.losses[10:]
