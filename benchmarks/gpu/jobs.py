"""Run one job of the acceptance within the time limit, and collect rows and notes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu.expectations import Reported
from benchmarks.support.command import NoJob, attempt
from benchmarks.support.results import Row, figure
from training.contract.failures import Failure

NO_TIME = "because the time limit was reached"
LONGEST_JOB_SECONDS = 600
Echo = Callable[[str], None]


class Deadline:
    """The time until which jobs may run."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def limits(self) -> dict[str, str]:
        """Return the field that limits the next job's time; empty if less than a minute is left."""
        left = min(LONGEST_JOB_SECONDS, int(self._end - time.monotonic()))
        return {"machine.max_run_seconds": str(left)} if left >= 60 else {}


@dataclass
class Findings:
    """Rows and notes of one result file."""

    rows: list[Row]
    notes: list[str]

    @property
    def has_passed(self) -> bool:
        """True if all targets are met."""
        return all(row.met is not False for row in self.rows)


def reported_by(
    folder: Path, fields: Mapping[str, str], *, offline: bool = True, slots: Path | None = None
) -> Reported:
    """Run a job with these fields, and its state and tracking under `folder`. Return what it reports.

    `offline` keeps it from the Hub. With a folder `slots`, it does not wait for devices that other jobs use.
    """
    try:
        run = attempt(folder, fields, offline=offline, slots=slots)
    except NoJob as error:
        return Reported(failure=Failure("Refused", str(error).strip().rpartition("\n")[2]), events=())
    return Reported(failure=run.failure, events=run.events)


def speed_rows(name: str, results: Sequence[Mapping[str, float]]) -> list[Row]:
    """Return the speed of the jobs of one setting, and their utilisation if the card's peak is known."""
    rates, shares = (
        [each[metric] for each in results if metric in each]
        for metric in ("throughput/steady_samples_per_second", "throughput/mfu")
    )
    rows = [figure(f"{name}: steady samples", rates, "samples/s")] if rates else []
    return [*rows, figure(f"{name}: utilisation", shares, "of the card's 16-bit peak")] if shares else rows
