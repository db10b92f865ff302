"""Settings that are resolved before the training: folders, and the refusal to shard a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.job.arguments import job_argv
from training.job.processes.reporting import Events, Unsupported
from training.job.settings.arguments import parse
from training.job.settings.job_settings import check_sharding, read_folders, resolve_settings


def test_models_are_sharded_with_torch_2_6_or_later() -> None:
    check_sharding(parse(job_argv(sharding="fsdp2")), "2.6.0")
    check_sharding(parse(job_argv(sharding="fsdp2", compiler="inductor")), "2.11.0+cu130")
    check_sharding(parse(job_argv(sharding="none")), "2.5.1")
    with pytest.raises(Unsupported, match=r"sharding fsdp2 needs torch 2.6 or later, but torch 2.5.1 is installed"):
        check_sharding(parse(job_argv(sharding="fsdp2")), "2.5.1")


def test_folders_are_read_from_the_environment(tmp_path: Path) -> None:
    names = ("SM_MODEL_DIR", "SM_OUTPUT_DIR", "SM_OUTPUT_DATA_DIR", "SM_CHANNEL_TRAIN", "SM_CHANNEL_VALIDATION")
    environment = {name: f"/a/{name}" for name in names} | {"SAGEMAKER_BASE_DIR": str(tmp_path)}
    folders = read_folders(environment)
    assert folders.train == Path("/a/SM_CHANNEL_TRAIN")
    assert folders.pretrained is None
    assert folders.checkpoints is None
    (tmp_path / "checkpoints").mkdir()
    assert read_folders(environment).checkpoints == tmp_path / "checkpoints"
    assert read_folders(environment | {"SM_CHECKPOINT_DIR": "/c"}).checkpoints == Path("/c")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_pytorch_cannot_use_is_noted(
    job: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")

    def noted(gpus: str) -> bool:
        resolve_settings(job_argv(), {**job.environment, "CUDA_VISIBLE_DEVICES": gpus}, Events())
        return "its NVIDIA driver may be too old for CUDA 13.0" in capfd.readouterr().out

    assert noted("0")
    assert not noted("")
