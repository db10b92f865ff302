"""Calibration results for each batch size, as MLflow points and in the terminal."""

from __future__ import annotations

from typing import Any

from tracking.following.progress import Progress
from tracking.recording.metric_points import Deduplicator
from training.contract.events import Event

FITS = {"fits": 1, "step_seconds": 0.4211, "samples_per_second": 151.98, "peak_memory_gib": 1.9, "steps": 5}
SIZES = ((64, FITS), (128, {"fits": 0, "steps": 0}))


def events(start: int = 0) -> list[Event]:
    fields: list[dict[str, Any]] = [
        {"step": size, "values": {f"calibration/{name}": value for name, value in values.items()}}
        for size, values in SIZES
    ]
    return [
        Event("start", start, 100.0 + start, {}),
        *(Event("metric", start + at, 100.0 + start + at, each) for at, each in enumerate(fields, 1)),
    ]


def points(deduplicator: Deduplicator, events: list[Event]) -> list[tuple[str, int, float]]:
    new = [point for event in deduplicator.new_events(events) for point in deduplicator.new_points(event)]
    return [(point.key, point.step, point.value) for point in new]


def test_each_batch_size_has_one_point_at_its_step() -> None:
    deduplicator = Deduplicator()
    first = points(deduplicator, events())
    expected = [(f"calibration/{name}", size, value) for size, values in SIZES for name, value in values.items()]
    assert first == expected
    assert points(deduplicator, events()) == []
    # The job was interrupted and started again: the first points are kept.
    assert points(deduplicator, events(start=3)) == []


def test_each_batch_size_has_a_line_in_the_terminal() -> None:
    lines: list[str] = []
    progress = Progress("job", lines.append, clock=lambda: 0.0)
    progress.show(events()[1:])
    progress.show_outcome({"calibration/largest_batch_size": 64.0, "cost/billable_seconds": 30.04}, None)
    assert lines == [
        "  job: batch 64: 0.421 s a step, 152.0 samples/s, 1.90 GiB",
        "  job: batch 128: does not fit in memory",
        "  job: batches up to 64 fit, 30.0 s billable",
    ]
