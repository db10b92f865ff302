"""Measure the load of others beside a user's script, which does not measure it itself. Standard library only."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from training.services.local.slots import Slot
from training.state.own_process import own_process

MEASURE_VARIABLE = "TRAINFARE_MEASURE_LOAD"
"""Variable of a request. `1` measures the load beside the job."""
FIELD = "MachineLoadMetrics"
"""Field of a job's description with the metrics, `machine/NAME` to value."""

_JOB = Path(__file__).resolve().parents[2] / "job"
_MODULE = "measuring.machine_load"
_END_SECONDS = 30.0


class LoadMeasurement:
    """A process in the job's session that reads the machine's counters. It ends when this process ends."""

    def __init__(self, job_name: str, slot: Slot) -> None:
        variables = {"PATH": os.environ.get("PATH", ""), "TRAINING_JOB_NAME": job_name, "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen(
            **own_process(_MODULE, *_arguments(slot), environment=variables, root=_JOB),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def metrics(self) -> dict[str, float]:
        """End the measurement and return its metrics; empty if it failed or the system has no counters."""
        try:
            output, _ = self._process.communicate(timeout=_END_SECONDS)
            metrics: dict[str, float] = json.loads(output)
        except (subprocess.TimeoutExpired, ValueError, OSError):
            self._process.kill()
            return {}
        return metrics


def _arguments(slot: Slot) -> Sequence[str]:
    return ["--cpus", str(len(slot.cores)), *(["--gpu"] if slot.gpus else [])]
