"""Steps of Trainer's dicts, from its epochs and its progress bar."""

from __future__ import annotations

from tracking.recording.script_formats.announcement import Announcement
from tracking.recording.script_formats.trainer import TrainerSteps


def bar(n: int, total: int) -> str:
    return f"{100 * n // total:3d}%|#         | {n}/{total} [00:00<00:05, 18.23it/s]"


def after(n: int, epoch: float, total: int) -> TrainerSteps:
    """Return the converter after one dict, whose step the bar has shown."""
    steps = TrainerSteps(Announcement())
    assert steps.read(bar(n - 3, total)) is None  # an old state, before the dict
    steps.expect(epoch)
    assert steps.read(bar(n, total)) == n
    return steps


def test_later_steps_follow_from_their_epochs() -> None:
    steps = after(5, 0.1316, 114)
    assert [steps.step_at(epoch) for epoch in (0.1316, 0.2632, 1.0, 1.053, 2.895)] == [5, 10, 38, 40, 110]
    assert steps.last_step == 114


def test_nothing_is_certain_before_the_bar_shows_a_step() -> None:
    steps = TrainerSteps(Announcement())
    assert (steps.step_at(0.5), steps.estimate_at(0.5), steps.last_step) == (None, None, None)


def test_limited_steps_are_not_whole_epochs() -> None:
    steps = after(7, 0.1842, 50)
    assert steps.step_at(0.3684) is None
    assert steps.estimate_at(0.5263) == 20
    assert steps.estimate_at(9.0) == 50


def test_a_rounded_epoch_is_not_certain() -> None:
    """Old versions round to two decimals: 0.01 may be any of ten steps of 700."""
    steps = after(10, 0.01, 2100)
    assert steps.step_at(0.03) is None


def test_other_bars_are_ignored() -> None:
    steps = after(5, 0.1316, 114)
    steps.expect(0.2632)
    assert steps.read(bar(3, 8)) is None
    assert steps.read(bar(10, 114)) == 10
