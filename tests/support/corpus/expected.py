"""Rows and channels as version 0.1.0 read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("expected.json")


def expected() -> dict[str, dict[str, Any]]:
    """Return the results of all cases: `read`, and for some `staged`."""
    content: dict[str, dict[str, Any]] = json.loads(PATH.read_text("utf-8"))
    return content
