"""Metadata of a job that runs a user's script. Our own job reports the same metadata itself."""

from __future__ import annotations

from pathlib import Path

from tracking.groups.planned_job import PlannedJob
from tracking.recording.run_description import cpu_name
from training.contract.events import Event

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
PACKAGES_FILE = "script-requirements.txt"
"""Artifact of a run with the pinned packages of its script."""
NO_CACHE_VARIABLE = "TORCHINDUCTOR_FORCE_DISABLE_CACHES"


def start_event(planned: PlannedJob) -> Event:
    """Return the `start` event for a script: its hyperparameters and its device."""
    assert planned.script is not None
    device = {"kind": "unknown", "name": device_name(planned), "count": planned.spec.instance_count}
    fields = {"hyperparameters": dict(planned.script.hyperparameters), "device": device}
    return Event(kind="start", seq=0, time=0.0, fields=fields)


def pinned_packages(planned: PlannedJob) -> str:
    """Return the packages that were installed for the script as lines of a requirements file, or an empty text."""
    packages = planned.script.packages if planned.script else {}
    return "".join(f"{name}=={number}\n" for name, number in packages.items())


def tags(planned: PlannedJob) -> dict[str, str]:
    """Return the tags of a run that is measured from its log."""
    return {"platform.measured": "outside", "platform.cache_state": cache_state(planned)}


def device_name(planned: PlannedJob) -> str:
    """Return the instance type as the device. The log does not show which of the instance's devices a script uses."""
    kind = planned.spec.instance_type
    return f"this machine ({cpu_name()})" if kind == "local" else kind


def cache_state(planned: PlannedJob) -> str:
    """Return the state of the compiler's cache before the job: off, cold or warm.

    Each compiler setting has its own cache folder (see `experiments.planning.plan`), so a folder with files is warm.
    Call this before the job is submitted, and store the result in its run.
    """
    spec = planned.spec
    if spec.compiler in ("none", "trcomp-off"):
        return "off"
    if spec.instance_type != "local" or NO_CACHE_VARIABLE in spec.environment:
        return "cold"
    folder = Path(spec.environment[CACHE_VARIABLE])
    return "warm" if folder.is_dir() and any(folder.iterdir()) else "cold"
