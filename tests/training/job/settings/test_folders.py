"""Folders of a job, from the `SM_*` variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from reporting.errors import ArgumentError
from settings.folders import read_folders


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
    with pytest.raises(ArgumentError, match="SM_CHANNEL_TRAIN is not set"):
        read_folders({name: value for name, value in environment.items() if name != "SM_CHANNEL_TRAIN"})
