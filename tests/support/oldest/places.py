"""A job on staged channels."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlparse

from tests.support.job.job_process import Job
from training.staging.sources.request import StagingRequest
from training.staging.stage import stage


def staged_job(folder: Path, request: StagingRequest, home: Path) -> Job:
    """Stage the request and return a job in `folder` that trains on its channels."""
    staged = stage(request, home)
    channels = {name: Path(unquote(urlparse(uri).path)) for name, uri in staged.channels.items()}
    job = Job(folder, channels["model"])
    job.environment |= {f"SM_CHANNEL_{name.upper()}": str(path) for name, path in channels.items()}
    job.environment["SM_CHECKPOINT_DIR"] = str(folder / "checkpoints")
    return job
