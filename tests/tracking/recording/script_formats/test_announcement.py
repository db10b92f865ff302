"""The block that Trainer announces, as run_glue.py and run_glue_no_trainer.py printed it."""

from __future__ import annotations

import pytest

from tracking.recording.script_formats.announcement import Announcement

GLUE = """\
[INFO|trainer.py:1618] 2026-11-25 02:29:37,186 >> ***** Running training *****
[INFO|trainer.py:1619] 2026-11-25 02:29:37,186 >>   Num examples = 100
[INFO|trainer.py:1620] 2026-11-25 02:29:37,186 >>   Num Epochs = 2
[INFO|trainer.py:1622] 2026-11-25 02:29:37,186 >>   Instantaneous batch size per device = 8
[INFO|trainer.py:1625] 02:29:37,186 >>   Total train batch size (w. parallel, distributed & accumulation) = 16
[INFO|trainer.py:1626] 2026-11-25 02:29:37,186 >>   Gradient Accumulation steps = 2
[INFO|trainer.py:1627] 2026-11-25 02:29:37,186 >>   Total optimization steps = 14
***** Running Evaluation *****
[INFO|trainer.py:2951] 2026-11-25 02:29:37,339 >>   Num examples = 60"""


def announcement(text: str = GLUE) -> Announcement:
    read = Announcement()
    for line in text.splitlines():
        read.read(line)
    return read


def test_the_block_is_read_and_the_evaluations_block_is_not() -> None:
    assert (announcement().total_steps, announcement().batch_size, announcement().steps_per_epoch) == (14, 16, 7)


def test_nothing_is_known_before_the_block_ends() -> None:
    begun = announcement("\n".join(GLUE.splitlines()[:6]))
    assert (begun.total_steps, begun.batch_size, begun.step_at(0.5)) == (None, None, None)


@pytest.mark.parametrize(
    ("epoch", "step"), [(0.0, 0), (0.4615, 3), (0.9231, 6), (1.0, 7), (1.308, 9), (1.769, 12), (2.0, 14)]
)
def test_epochs_are_those_of_real_steps(epoch: float, step: int) -> None:
    """From the log of run_glue.py: 100 rows are 13 batches of 8, so the last update of an epoch has one batch."""
    assert announcement().step_at(epoch) == step


def test_the_last_batch_of_an_epoch_is_smaller() -> None:
    assert [announcement().samples_after(steps) for steps in (1, 6, 7, 8, 14)] == [16, 96, 100, 116, 200]


def test_a_second_training_replaces_the_first() -> None:
    second = announcement(GLUE + "\n" + GLUE.replace("= 100", "= 1,000").replace("= 14", "= 126"))
    assert (second.total_steps, second.steps_per_epoch) == (126, 63)
