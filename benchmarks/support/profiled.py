"""Run a job that has ended once more under PyTorch's profiler: what the time of a training step goes to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from training.services.local import container, slots, toolkit
from training.services.local.job_folder import JobFolder

SCRIPT = Path(__file__).with_name("profiled_job.py")


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One kind of operation over the profiled steps."""

    name: str
    """PyTorch's, such as `aten::addmm`."""
    seconds: float
    """In the operation itself, without those that it calls."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The profiled steps of one training."""

    seconds: float
    """Wall time of these steps, loading of data included."""
    steps: int
    operations: list[Operation]


def profile_of(job: JobFolder) -> Profile:
    """Run the request of a local job of one process again, by itself, and return the profile of its later steps."""
    with tempfile.TemporaryDirectory() as folder:
        base, found = Path(folder) / "opt" / "ml", Path(folder) / "profile.json"
        request = container.relocate_paths(job.request(), base)
        container.lay_out(base, request)
        arguments = toolkit.arguments(toolkit.user_hyperparameters(toolkit.decoded(request["HyperParameters"])))
        cores = slots.requested_cores(request.get("Environment", {})) or len(os.sched_getaffinity(0))
        done = subprocess.run(
            [sys.executable, str(SCRIPT), str(found), *arguments],
            cwd=base / "code",
            env=container.environment(request, base, cores=cores, gpus=(), processes=1),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            sys.exit(f"error: the profiled job ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        read = json.loads(found.read_text())
    operations = [Operation(**operation) for operation in read["operations"]]
    return Profile(seconds=read["seconds"], steps=read["steps"], operations=operations)
