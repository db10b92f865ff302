"""What a sweep searched and found, kept with its parent run: the report reads it beside the jobs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from tracking.groups.group import Group
from tracking.server.store import Store

FILE = "sweep.json"
FEWEST_TRIALS = 4
"""Trials of a compiler that came to their end, below which the importance of a parameter means nothing."""


def keep_sweep(store: Store, group: Group, facts: Mapping[str, Any]) -> None:
    """Write the facts to the group's parent run; what is not finite is null."""
    text = json.dumps(_plain(facts), indent=1, ensure_ascii=False)
    store.call(store.client.log_text, group.run_id, text, FILE)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
