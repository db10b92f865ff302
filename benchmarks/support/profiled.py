"""Repeat a finished job under PyTorch's profiler, to measure the operations of a training step."""

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
    """One kind of operation in the profiled steps."""

    name: str
    """PyTorch's name, such as `aten::addmm`."""
    seconds: float
    """Time in the operation itself, without operations that it calls."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The profiled steps of one training."""

    seconds: float
    """Wall time of these steps, including data loading."""
    steps: int
    operations: list[Operation]


def profile_job(job: JobFolder) -> Profile:
    """Repeat a local single-process job from its request, and return the profile of the steps after the warm-up."""
    with tempfile.TemporaryDirectory() as folder:
        base, output = Path(folder) / "opt" / "ml", Path(folder) / "profile.json"
        request = container.relocate_paths(job.request(), base)
        container.create_folders(base, request)
        arguments = toolkit.arguments(toolkit.user_hyperparameters(toolkit.decoded(request["HyperParameters"])))
        cores = slots.requested_cores(request.get("Environment", {})) or len(os.sched_getaffinity(0))
        done = subprocess.run(
            [sys.executable, str(SCRIPT), str(output), *arguments],
            cwd=base / "code",
            env=container.environment(request, base, cores=cores, gpus=(), processes=1),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            sys.exit(f"error: the profiled job failed with exit code {done.returncode}:\n{done.stdout}\n{done.stderr}")
        result = json.loads(output.read_text())
    operations = [Operation(**operation) for operation in result["operations"]]
    return Profile(seconds=result["seconds"], steps=result["steps"], operations=operations)
