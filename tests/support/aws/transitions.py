"""Status transitions in the description of a simulated job."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from training.contract.service import Description


def after_start(local: Description, downloading: datetime) -> list[dict[str, Any]]:
    """Return the local service's transitions after its start. The download starts at `downloading`."""
    transitions = [dict(each) for each in local.get("SecondaryStatusTransitions", [])]
    transitions = [each for each in transitions if each["Status"] not in {"Starting", "Pending"}]
    if not transitions or transitions[0]["Status"] != "Downloading":
        return [transition("Downloading", downloading, None), *transitions]
    transitions[0]["StartTime"] = downloading
    return transitions


def transition(status: str, start: datetime, end: datetime | None) -> dict[str, Any]:
    ended = {"EndTime": end} if end else {}
    return {"Status": status, "StartTime": start, "StatusMessage": status, **ended}


def status(final: str) -> str:
    return final if final in {"Completed", "Failed"} else "Stopped"
