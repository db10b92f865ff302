"""Points that were already recorded, and those that only look like it."""

from __future__ import annotations

from typing import Any

from tracking.recording.metric_points import Deduplicator
from training.contract.events import Event


def metric(step: int, time: float, **values: float) -> Event:
    fields: dict[str, Any] = {"step": step, "samples": 16 * step, "epoch": step / 10, "values": values}
    return Event(kind="metric", seq=int(10 * time), time=time, fields=fields)


def new(deduplicator: Deduplicator, event: Event) -> list[tuple[str, float, int, int]]:
    points = deduplicator.new_points(event)
    return [(point.key, point.value, point.step, point.timestamp) for point in points]


def test_the_progress_of_a_step_is_recorded_once() -> None:
    """The evaluation at the end of step 5 comes two seconds after its loss."""
    deduplicator = Deduplicator()
    assert new(deduplicator, metric(5, 1.0, loss=0.7)) == [
        ("loss", 0.7, 5, 1000),
        ("epoch", 0.5, 5, 1000),
        ("samples", 80.0, 5, 1000),
    ]
    assert new(deduplicator, metric(5, 3.0, eval_loss=0.8)) == [("eval_loss", 0.8, 5, 3000)]
    assert [key for key, *_ in new(deduplicator, metric(6, 4.0, loss=0.6))] == ["loss", "epoch", "samples"]


def test_two_losses_of_a_step_are_both_kept() -> None:
    deduplicator = Deduplicator()
    new(deduplicator, metric(5, 1.0, loss=0.7))
    assert new(deduplicator, metric(5, 2.0, loss=0.5)) == [("loss", 0.5, 5, 2000)]


def test_steps_before_a_restart_are_not_recorded_again() -> None:
    deduplicator = Deduplicator()
    for step in (1, 2, 3):
        new(deduplicator, metric(step, step, loss=1 / step))
    deduplicator.new_points(Event(kind="start", seq=50, time=5.0, fields={}))
    assert new(deduplicator, metric(3, 6.0, loss=0.4)) == []
    assert [key for key, *_ in new(deduplicator, metric(4, 7.0, loss=0.3))] == ["loss", "epoch", "samples"]


def test_an_event_that_is_sent_again_is_not_new() -> None:
    deduplicator = Deduplicator()
    first, second, third = (metric(step, float(step), loss=0.5) for step in (1, 2, 3))
    assert deduplicator.new_events([first, second]) == [first, second]
    assert deduplicator.new_events([second, third]) == [third]
