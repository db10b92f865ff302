"""Search space and results of a sweep, stored with its parent run for the report."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from tracking.groups.group import Group
from tracking.server.store import Store

FILE = "sweep.json"
MIN_TRIALS = 4
"""Fewest completed trials of a compiler for which the importance of each parameter is computed."""


def write_sweep(store: Store, group: Group, results: Mapping[str, Any]) -> None:
    """Write the results to the group's parent run; numbers that are not finite become null."""
    text = json.dumps(_json(results), indent=1, ensure_ascii=False)
    store.call(store.client.log_text, group.run_id, text, FILE)


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
