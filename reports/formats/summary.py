"""A report's numbers and verdicts as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

from reports.model.report import Report


def summary(report: Report) -> dict[str, Any]:
    """Return the summary as strict JSON values, including the report's missing data."""
    return {**json_value(dict(report.summary)), "missing": list(report.missing)}


def summary_text(report: Report) -> str:
    """Return the summary as JSON text."""
    return json.dumps(summary(report), indent=1, ensure_ascii=False)


def json_value(value: Any) -> Any:
    """Return a value with None in place of every non-finite number, and lists in place of tuples."""
    if isinstance(value, dict):
        return {key: json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
