"""The model of the paths: the demo's pretrained encoder, without dropout."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from benchmarks.support.data import MINILM
from training.staging.models.model_files import locate


def model_without_dropout(folder: Path) -> Path:
    """Copy the demo's model into a new folder under `folder` and set its dropout to 0. Return the new folder.

    Compiled and uncompiled programs draw different random numbers for dropout, so their losses would differ.
    """
    copy = folder / "model"
    shutil.copytree(locate(MINILM["model"]).location, copy)
    file = copy / "config.json"
    config = json.loads(file.read_text())
    config |= {name: 0.0 for name in config if name.endswith("dropout_prob")}
    file.write_text(json.dumps(config))
    return copy
