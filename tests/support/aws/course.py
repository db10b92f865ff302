"""The transitions by which a description tells a job's course."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from training.contract.service import Description


def after_start(local: Description, downloading: datetime) -> list[dict[str, Any]]:
    """Return the local service's transitions after its start, the download beginning when ours began."""
    course = [dict(each) for each in local.get("SecondaryStatusTransitions", [])]
    course = [each for each in course if each["Status"] not in {"Starting", "Pending"}]
    if not course or course[0]["Status"] != "Downloading":
        return [entered("Downloading", downloading, None), *course]
    course[0]["StartTime"] = downloading
    return course


def entered(status: str, start: datetime, end: datetime | None) -> dict[str, Any]:
    ended = {"EndTime": end} if end else {}
    return {"Status": status, "StartTime": start, "StatusMessage": status, **ended}


def status(final: str) -> str:
    return final if final in {"Completed", "Failed"} else "Stopped"
