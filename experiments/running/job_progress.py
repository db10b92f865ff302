"""Print the progress of a running job to the terminal in a few lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from training.contract.events import Event
from training.contract.failures import Failure
from training.job.tasks import LOSS, METRICS

_QUIET_SECONDS = 10.0
"""Shortest time between two lines that report a step."""

_TRACEBACK_LINES = 40
"""Number of lines shown of a traceback: the last ones, which contain the error itself."""


def _calibration_line(event: Event) -> str:
    """Return a line with the measurements of one batch size. The event's step is the batch size."""
    values = event.fields["values"]
    if not values["calibration/fits"]:
        return f"batch {event.fields['step']}: does not fit in memory"
    figures = (
        ("calibration/step_seconds", "{:.3g} s a step"),
        ("calibration/samples_per_second", "{:,.1f} samples/s"),
        ("calibration/peak_memory_gib", "{:.2f} GiB"),
    )
    measured = ", ".join(form.format(values[name]) for name, form in figures if name in values)
    return f"batch {event.fields['step']}: {measured}"


class JobProgress:
    """Progress of one job, printed through `echo`."""

    def __init__(
        self,
        name: str,
        echo: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        usd_per_second: float | None = None,
    ) -> None:
        """`usd_per_second` is the price of all instances of the job together, if it is known."""
        self._name, self._echo, self._clock, self._usd_per_second = name, echo, clock, usd_per_second
        self._printed_at = clock()
        self._disk_warning = ""

    def show_disk(self, warning: str) -> None:
        """Print a warning about the disk when it begins."""
        if warning and not self._disk_warning:
            self._line(warning)
        self._disk_warning = warning

    def show_warning(self, text: str) -> None:
        """Print a warning about the job."""
        self._line(text)

    def show(self, events: Iterable[Event]) -> None:
        """Print new events. Steps are printed at most every `_QUIET_SECONDS`."""
        for event in events:
            if event.kind == "start":
                device = event.fields.get("device", {})
                samples = event.fields.get("samples", {})
                self._line(f"started on {device.get('name', '?')}, {samples.get('train', '?')} training samples")
            elif event.kind == "phase" and event.fields.get("phase") == "compile":
                self._line(f"compiled in {event.fields.get('seconds', 0):.1f} s")
            elif event.kind == "note":
                self._line(str(event.fields.get("message", "")))
            elif event.kind == "metric" and "projected/seconds" in event.fields.get("values", {}):
                self._line(self._projected(event))
            elif event.kind == "metric" and "calibration/fits" in event.fields.get("values", {}):
                self._line(_calibration_line(event))
            elif event.kind == "metric" and self._clock() - self._printed_at >= _QUIET_SECONDS:
                values = event.fields.get("values", {})
                losses = ", ".join(f"{name} {values[name]:.4g}" for name in ("loss", "eval_loss") if name in values)
                samples = f"{event.fields['samples']:.0f} samples, " if "samples" in event.fields else ""
                self._line(f"step {event.fields.get('step')}, {samples}{losses}")

    def show_outcome(
        self,
        metrics: Mapping[str, float],
        failure: Failure | None,
        compiler_warning: str | None = None,
        missing: str = "",
    ) -> None:
        """Print the main figures, or the failure, of a job that has ended, and what is `missing`."""
        if missing:
            self._line(f"{missing} had not arrived when this command stopped waiting")
        if failure and failure.is_stop:
            seconds = metrics.get("cost/billable_seconds", 0.0)
            without_seconds = "stopped" if missing else "stopped before it started"
            self._line(f"stopped after {seconds:.1f} billable seconds" if seconds else without_seconds)
            return
        if failure:
            # Only the last line of a traceback is printed; the run contains the whole traceback.
            self._line(f"failed: {failure.text}")
            return
        figures = (
            ("projected/billable_seconds", "{:,.0f} s billable projected"),
            ("calibration/largest_batch_size", "batches up to {:.0f} fit"),
            ("throughput/steady_samples_per_second", "{:.1f} samples/s steady"),
            ("cost/billable_seconds", "{:.1f} s billable"),
            # A script may log a score in another unit.
            *((each.name, f"{each.label} {{:.4g}}") for each in METRICS if each != LOSS),
        )
        self._line(", ".join(form.format(metrics[name]) for name, form in figures if name in metrics) or "completed")
        if compiler_warning:
            self._line(compiler_warning)

    def show_log(self, failure: Failure, job_name: str) -> None:
        """Print the traceback of a failed job and the location of its log."""
        for line in failure.traceback.splitlines()[-_TRACEBACK_LINES:]:
            self._echo(f"    {line}")
        self._line(f"job {job_name}, log: {failure.log_location}")

    def _projected(self, event: Event) -> str:
        seconds, low, high = (event.fields["values"][f"projected/seconds{bound}"] for bound in ("", "_low", "_high"))
        usd = f", {seconds * self._usd_per_second:.2f} USD" if self._usd_per_second else ""
        return (
            f"after {event.fields.get('samples', 0):.0f} samples: the whole training would take {seconds:,.0f} s "
            f"({low:,.0f} to {high:,.0f}){usd} without its evaluations and checkpoints to come"
        )

    def _line(self, text: str) -> None:
        self._printed_at = self._clock()
        self._echo(f"  {self._name}: {text}")
