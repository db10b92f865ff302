"""Describe a command in the run that `mlflow run` opened for it."""

from __future__ import annotations

import os
from contextlib import suppress

from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME, MLFLOW_RUN_NOTE

from tracking.server.store import Store
from training.contract.errors import TrackingError


def note_command(store: Store, verb: str, name: str, note: str) -> None:
    """Write name and note to this command's run, if it has one. Errors of the tracking server are ignored."""
    if run_id := os.environ.get("MLFLOW_RUN_ID"):
        with suppress(TrackingError):
            tags = {"platform.kind": verb, MLFLOW_RUN_NAME: f"{verb} {name}", MLFLOW_RUN_NOTE: note}
            store.tag(run_id, tags)
