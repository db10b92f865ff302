"""The choice among formats: the steps of a log come from one of them."""

from __future__ import annotations

from tracking.recording.script_formats.announcement import Announcement
from tracking.recording.script_formats.formats import LogFormats

ITERATION = "iter {}: loss 10.8121, time 327.62ms, mfu -100.00%"
BATCH = "| epoch   1 |     5/   33 batches | lr 20.00 | ms/batch 14.44 | loss  4.03 | ppl    56.23"
BAR = "Epoch 1:  20%|##   | 10/50 [00:05<00:40, 10.90it/s, loss=0.5]"


def steps(*lines: str) -> list[int | None]:
    formats = LogFormats(Announcement())
    return [reading.step if (reading := formats.read(line)) else None for line in lines]


def test_the_lines_of_a_framework_come_before_progress_bars() -> None:
    assert steps(BAR, ITERATION.format(12), BAR, ITERATION.format(14)) == [10, 12, None, 14]


def test_two_frameworks_in_one_log_give_no_steps() -> None:
    assert steps(ITERATION.format(12), BATCH, ITERATION.format(14)) == [12, None, None]


def test_an_unknown_line_has_no_content() -> None:
    assert steps("step 20 samples 160 loss 0.5", "epoch 3") == [None, None]
