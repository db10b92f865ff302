"""Make the job's modules importable, which read the channels that staging writes."""

from __future__ import annotations

import tests.support.job.job_process  # noqa: F401
