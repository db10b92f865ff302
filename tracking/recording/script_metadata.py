"""What is known of a script from outside, where our own job would have told it."""

from __future__ import annotations

from pathlib import Path

from tracking.groups.planned_job import PlannedJob
from tracking.recording.run_description import processor
from training.contract.events import Event

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
NO_CACHE_VARIABLE = "TORCHINDUCTOR_FORCE_DISABLE_CACHES"


def start_event(planned: PlannedJob) -> Event:
    """Return the event with which the script would have begun: what it was given, and on which machine."""
    assert planned.script is not None
    device = {"kind": "unknown", "name": machine(planned), "count": planned.spec.instance_count}
    fields = {"hyperparameters": dict(planned.script.hyperparameters), "device": device}
    return Event(kind="start", seq=0, time=0.0, fields=fields)


def tags(planned: PlannedJob) -> dict[str, str]:
    """Return the tags of a run that was measured from outside."""
    return {"platform.measured": "outside", "platform.cache_state": cache_state(planned)}


def machine(planned: PlannedJob) -> str:
    """Return what the job runs on; from outside, nobody sees which of its devices a script uses."""
    kind = planned.spec.instance_type
    return f"this machine ({processor()})" if kind == "local" else kind


def cache_state(planned: PlannedJob) -> str:
    """Return the state of the compiler's cache as the job will find it: off, cold or warm.

    The cache is the setting's own (see `experiments.planning.plan`): a cache that is not empty holds it.
    Asked before the job is submitted, and kept in its run.
    """
    spec = planned.spec
    if spec.compiler in ("none", "trcomp-off"):
        return "off"
    if spec.instance_type != "local" or NO_CACHE_VARIABLE in spec.environment:
        return "cold"
    folder = Path(spec.environment[CACHE_VARIABLE])
    return "warm" if folder.is_dir() and any(folder.iterdir()) else "cold"
