"""What a sweep searched and found, kept with its parent run: the report reads it beside the jobs."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from typing import Any

from mlflow.entities import Metric

from tracking.group import Group
from tracking.store import Store

FILE = "sweep.json"


def keep_sweep(store: Store, group: Group, facts: Mapping[str, Any]) -> None:
    """Write the facts to the group's parent run; what is not finite is null."""
    text = json.dumps(_plain(facts), indent=1, ensure_ascii=False)
    store.call(store.client.log_text, group.run_id, text, FILE)


def show_figures(store: Store, group: Group, figures: Mapping[str, float]) -> None:
    """Write figures of the whole sweep to the parent run, as metrics; what is not finite or 0 is left out."""
    at_ms = int(time.time() * 1000)
    metrics = [Metric(name, value, at_ms, 0) for name, value in figures.items() if value and math.isfinite(value)]
    store.call(store.client.log_batch, group.run_id, metrics=metrics)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
