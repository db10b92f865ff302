"""Run the program of an earlier job once more, without supervisor, recorder and tracking server."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training.contract.events import EventReader
from training.services.local import container, toolkit
from training.services.local.job_folder import JobFolder


def run_program(job: JobFolder) -> Mapping[str, Any]:
    """Run the training of a job in new folders, with the same arguments and variables. Return the result's metrics.

    Exits if the program fails.
    """
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        request = container.relocate_paths(job.request(), base)
        container.create_folders(base, request)
        done = subprocess.run(
            toolkit.command(container.python(request), toolkit.decoded(request["HyperParameters"])),
            cwd=base / "code",
            env=container.environment(request, base, cores=len(os.sched_getaffinity(0)), gpus=(), processes=1),
            capture_output=True,
            text=True,
        )
    if done.returncode:
        sys.exit(f"error: the job's program failed:\n{done.stderr}")
    result = next(each for each in EventReader().read(done.stdout.splitlines()) if each.kind == "result")
    metrics: Mapping[str, Any] = result.fields["metrics"]
    return metrics
