"""Waits of a job before it trains, from its description. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from training.contract.service import QUEUE_STATUSES, TERMINAL_STATUSES, Description, instance_count

INTERRUPTED_STATUSES = frozenset({"Interrupted", "Restarting"})
"""Secondary statuses of a spot job whose instances were reclaimed."""


@dataclass(frozen=True, kw_only=True)
class Wait:
    """A wait of a job that has been submitted."""

    reason: str
    """Resources that it waits for, such as `2 cores (0 of 2 free, used by demo-1)`."""
    since: datetime


def wait_of(description: Description) -> Wait | None:
    """Return the wait of a job, or None if it does not wait.

    A local job waits for cores and GPUs, and its message names them. A job at SageMaker waits for its instances.
    """
    status = description["SecondaryStatus"]
    if status not in QUEUE_STATUSES | INTERRUPTED_STATUSES or description["TrainingJobStatus"] in TERMINAL_STATUSES:
        return None
    transitions = description.get("SecondaryStatusTransitions", [])
    message = str(transitions[-1].get("StatusMessage", "")) if transitions else ""
    if message.startswith("Waiting for "):
        reason = message.removeprefix("Waiting for ")
    elif _is_local(description):
        return None  # it is about to start, or to look for a slot
    else:
        reason = f"{_capacity(description)} ({': '.join(filter(None, (status, message)))})"
    return Wait(reason=reason, since=_since(description))


def _is_local(description: Description) -> bool:
    return bool(description.get("ResourceConfig", {}).get("InstanceType") == "local")


def _capacity(description: Description) -> str:
    resources, count = description.get("ResourceConfig", {}), instance_count(description)
    instance_type = resources.get("SelectedInstanceType") or resources.get("InstanceType") or "an instance"
    kind = "spot capacity of " if description.get("EnableManagedSpotTraining") else ""
    return f"{kind}{f'{count} x ' if count > 1 else ''}{instance_type}"


def _since(description: Description) -> datetime:
    """Return the start of the wait: that of the first of the last transitions that all belong to it."""
    since: datetime = description["CreationTime"]
    waiting = QUEUE_STATUSES | INTERRUPTED_STATUSES
    for transition in reversed(description.get("SecondaryStatusTransitions", [])):
        if transition["Status"] not in waiting:
            break
        since = transition["StartTime"]
    return since
