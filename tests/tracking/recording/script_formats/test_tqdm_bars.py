"""Progress bars of tqdm: which of them show the training, and its steps."""

from __future__ import annotations

import pytest

from tracking.recording.script_formats.announcement import Announcement
from tracking.recording.script_formats.reading import Reading
from tracking.recording.script_formats.tqdm_bars import TqdmBars, bar_of


def announced(total: int) -> Announcement:
    announcement = Announcement()
    for line in ("***** Running training *****", f"  Total optimization steps = {total}"):
        announcement.read(line)
    return announcement


def bar(description: str, n: int, total: int, rest: str = "", unit: str = "it/s") -> str:
    return f"{description}{100 * n // total:3d}%|##   | {n}/{total} [00:05<00:40, 10.90{unit}{rest}]"


def steps(bars: TqdmBars, *texts: str) -> list[int | None]:
    readings: list[Reading | None] = [bars.read(text) for text in texts]
    return [each.step if each else None for each in readings]


def test_a_bar_is_read_with_its_values() -> None:
    read = bar_of("Epoch 3/9:  12%|█▏        | 60/500 [1:00:05<7:20:40, 10.90s/it, loss=0.69, lr=1e-05, val_acc=nan]")
    assert read is not None
    assert (read.description, read.n, read.total, read.percent) == ("Epoch 3/9", 60, 500, 12)
    assert read.elapsed_seconds == 3605
    assert (read.values["loss"], read.values["learning_rate"]) == (0.69, 1e-5)
    assert "eval_acc" in read.values
    first = bar_of("  0%|          | 0/14 [00:00<?, ?it/s]")
    assert first is not None
    assert first.total == 14


@pytest.mark.parametrize(
    "text",
    [
        "Running tokenizer on dataset: 100%|##| 100/100 [00:00<00:00, 6438.12 examples/s]",
        "model.safetensors: 100%|##| 91.0M/91.0M [00:01<00:00, 80.2MB/s]",
        "100%|##| 5/4 [00:01<00:00, 1.0it/s]",
        "100%|##| 4/4",
        "",
    ],
)
def test_bars_that_count_no_steps_are_ignored(text: str) -> None:
    assert bar_of(text) is None


def test_only_the_bar_with_the_announced_steps_counts() -> None:
    bars = TqdmBars(announced(14))
    texts = bar("", 3, 14), bar("", 3, 8), bar("Loading weights: ", 3, 14), bar("", 14, 14)
    assert steps(bars, *texts) == [3, None, None, 14]
    assert bars.unit == "update"


@pytest.mark.parametrize("first", [0, 1])
def test_bars_of_numbered_epochs_are_added_up(first: int) -> None:
    bars = TqdmBars(Announcement())
    texts = [bar(f"Epoch {first + epoch}: ", n, 50) for epoch in range(3) for n in (0, 20, 50)]
    assert steps(bars, *texts) == [0, 20, 50, 50, 70, 100, 100, 120, 150]
    assert bars.unit == "batch"


def test_a_bar_that_may_count_anything_gives_no_step() -> None:
    assert (
        steps(TqdmBars(Announcement()), bar("", 2, 10), bar("Epoch: ", 2, 10), bar("Evaluating: ", 2, 10)) == [None] * 3
    )


def test_a_bar_with_a_loss_gives_steps_of_an_unknown_kind() -> None:
    bars = TqdmBars(Announcement())
    assert steps(bars, bar("", 2, 10, ", loss=0.5"), bar("Training: ", 3, 10, ", loss=0.4")) == [2, 3]
    assert bars.unit == "unknown"
    # A second bar of another length cannot be told from the first: neither counts any more.
    assert steps(bars, bar("", 2, 9, ", loss=0.5"), bar("", 4, 10, ", loss=0.4")) == [None, None]
