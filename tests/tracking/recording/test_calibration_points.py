"""What a calibration says of each batch size, in MLflow's points and in the terminal."""

from __future__ import annotations

from typing import Any

from tracking.following.progress import Progress
from tracking.recording.deduplicate import Once
from training.contract.events import Event

FITS = {"fits": 1, "step_seconds": 0.4211, "samples_per_second": 151.98, "peak_memory_gib": 1.9, "steps": 5}
SIZES = ((64, FITS), (128, {"fits": 0, "steps": 0}))


def events(start: int = 0) -> list[Event]:
    told: list[dict[str, Any]] = [
        {"step": size, "values": {f"calibration/{name}": value for name, value in values.items()}}
        for size, values in SIZES
    ]
    return [
        Event("start", start, 100.0 + start, {}),
        *(Event("metric", start + at, 100.0 + start + at, fields) for at, fields in enumerate(told, 1)),
    ]


def points(once: Once, heard: list[Event]) -> list[tuple[str, int, float]]:
    return [(each.key, each.step, each.value) for event in once.fresh(heard) for each in once.points(event)]


def test_points_stand_at_the_batch_size_and_once() -> None:
    once = Once()
    first = points(once, events())
    expected = [(f"calibration/{name}", size, value) for size, values in SIZES for name, value in values.items()]
    assert first == expected
    assert points(once, events()) == []
    # The job was taken from its machine and began again: what was told first stays.
    assert points(once, events(start=3)) == []


def test_a_line_for_each_batch_size() -> None:
    said: list[str] = []
    progress = Progress("job", said.append, clock=lambda: 0.0)
    progress.show(events()[1:])
    progress.ended({"calibration/largest_batch_size": 64.0, "cost/billable_seconds": 30.04}, None)
    assert said == [
        "  job: batch 64: 0.421 s a step, 152.0 samples/s, 1.90 GiB",
        "  job: batch 128: does not fit in memory",
        "  job: batches up to 64 fit, 30.0 s billable",
    ]
