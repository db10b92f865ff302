"""Read steps, values and evaluations from lines that public frameworks printed."""

from __future__ import annotations

import pytest

from tracking.recording.log_formats import Announcement, LogFormats, Reading, TrainerSteps, bar_of


def readings_of(*lines: str, announcement: Announcement | None = None) -> list[Reading | None]:
    """Return the first reading of each line."""
    formats = LogFormats(announcement or Announcement())
    return [next(iter(formats.read(line)), None) for line in lines]


def steps_of(*lines: str, announcement: Announcement | None = None) -> list[int | None]:
    return [reading.step if reading else None for reading in readings_of(*lines, announcement=announcement)]


# The choice among formats: the steps of a log come from one of them.


ITERATION = "iter {}: loss 10.8121, time 327.62ms, mfu -100.00%"
BATCH = "| epoch   1 |     5/   33 batches | lr 20.00 | ms/batch 14.44 | loss  4.03 | ppl    56.23"
BAR = "Epoch 1:  20%|##   | 10/50 [00:05<00:40, 10.90it/s, loss=0.5]"


def test_the_lines_of_a_framework_come_before_progress_bars() -> None:
    assert steps_of(BAR, ITERATION.format(12), BAR, ITERATION.format(14)) == [10, 12, None, 14]
    assert steps_of("step 20 samples 160 loss 0.5", "epoch 3") == [None, None]


def test_two_frameworks_in_one_log_give_no_steps() -> None:
    assert steps_of(ITERATION.format(12), BATCH, ITERATION.format(14)) == [12, None, None]


# The block that Trainer announces, as run_glue.py and run_glue_no_trainer.py printed it.


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


def test_the_block_is_read_once_it_ends_and_the_evaluations_block_is_not() -> None:
    read = announcement()
    assert (read.total_steps, read.batch_size, read.steps_per_epoch) == (14, 16, 7)
    assert [read.samples_after(steps) for steps in (1, 6, 7, 8, 14)] == [16, 96, 100, 116, 200]
    begun = announcement("\n".join(GLUE.splitlines()[:6]))
    assert (begun.total_steps, begun.batch_size, begun.step_at(0.5)) == (0, 0, None)
    second = announcement(GLUE + "\n" + GLUE.replace("= 100", "= 1,000").replace("= 14", "= 126"))
    assert (second.total_steps, second.steps_per_epoch) == (126, 63)


def test_epochs_are_those_of_real_steps() -> None:
    """From the log of run_glue.py: 100 rows are 13 batches of 8, so the last update of an epoch has one batch."""
    epochs = (0.0, 0.4615, 0.9231, 1.0, 1.308, 1.769, 2.0)
    assert [announcement().step_at(epoch) for epoch in epochs] == [0, 3, 6, 7, 9, 12, 14]


# Steps of Trainer's dicts, from its epochs and its progress bar.


def trainer_bar(n: int, total: int) -> str:
    return f"{100 * n // total:3d}%|#         | {n}/{total} [00:00<00:05, 18.23it/s]"


def after_bar(n: int, epoch: float, total: int) -> TrainerSteps:
    """Return the converter after one dict, whose step the bar has shown."""
    steps = TrainerSteps(Announcement())
    steps.read(trainer_bar(n - 3, total))  # an old state, before the dict
    assert steps.read(trainer_bar(n, total), epoch) == n
    return steps


def test_later_steps_follow_from_their_epochs() -> None:
    steps = after_bar(5, 0.1316, 114)
    assert [steps.step_at(epoch) for epoch in (0.1316, 0.2632, 1.0, 1.053, 2.895)] == [5, 10, 38, 40, 110]
    assert steps.last_step == 114
    limited = after_bar(7, 0.1842, 50)  # the script limits the steps
    assert [limited.step_at(epoch) for epoch in (0.5263, 9.0)] == [20, 50]
    begun = TrainerSteps(Announcement())
    assert (begun.step_at(0.5), begun.last_step) == (None, None)


# Progress bars of tqdm: which of them show the training, and its steps.


def announced(total: int) -> Announcement:
    announcement = Announcement()
    for line in ("***** Running training *****", f"  Total optimization steps = {total}"):
        announcement.read(line)
    return announcement


def tqdm_bar(description: str, n: int, total: int, rest: str = "", unit: str = "it/s") -> str:
    return f"{description}{100 * n // total:3d}%|##   | {n}/{total} [00:05<00:40, 10.90{unit}{rest}]"


def units_of(*lines: str, announcement: Announcement | None = None) -> set[str]:
    return {reading.unit for reading in readings_of(*lines, announcement=announcement) if reading}


def test_a_bar_is_read_with_its_values() -> None:
    read = bar_of("Epoch 3/9:  12%|█▏        | 60/500 [1:00:05<7:20:40, 10.90s/it, loss=0.69, lr=1e-05, val_acc=nan]")
    assert read is not None
    assert (read.description, read.n, read.total) == ("Epoch 3/9", 60, 500)
    assert read.elapsed_seconds == 3605
    assert (read.values["loss"], read.values["learning_rate"]) == (0.69, 1e-5)
    assert "eval_acc" in read.values
    assert bar_of("  0%|          | 0/14 [00:00<?, ?it/s]") is not None
    for other in (
        "Running tokenizer on dataset: 100%|##| 100/100 [00:00<00:00, 6438.12 examples/s]",
        "model.safetensors: 100%|##| 91.0M/91.0M [00:01<00:00, 80.2MB/s]",
        "100%|##| 5/4 [00:01<00:00, 1.0it/s]",
    ):
        assert bar_of(other) is None


def test_only_the_bar_with_the_announced_steps_counts() -> None:
    texts = tqdm_bar("", 3, 14), tqdm_bar("", 3, 8), tqdm_bar("Loading weights: ", 3, 14), tqdm_bar("", 14, 14)
    assert steps_of(*texts, announcement=announced(14)) == [3, None, None, 14]
    assert units_of(*texts, announcement=announced(14)) == {"update"}


@pytest.mark.parametrize("first", [0, 1])
def test_bars_of_numbered_epochs_are_added_up(first: int) -> None:
    texts = [tqdm_bar(f"Epoch {first + epoch}: ", n, 50) for epoch in range(3) for n in (0, 20, 50)]
    assert steps_of(*texts) == [0, 20, 50, 50, 70, 100, 100, 120, 150]
    assert units_of(*texts) == {"batch"}


def test_a_bar_that_may_count_anything_gives_no_step() -> None:
    assert steps_of(*(tqdm_bar(description, 2, 10) for description in ("", "Epoch: ", "Evaluating: "))) == [None] * 3


def test_a_bar_with_a_loss_gives_steps_of_an_unknown_kind() -> None:
    texts = tqdm_bar("", 2, 10, ", loss=0.5"), tqdm_bar("Training: ", 3, 10, ", loss=0.4")
    # A second bar of another length cannot be told from the first: neither counts any more.
    more = tqdm_bar("", 2, 9, ", loss=0.5"), tqdm_bar("", 4, 10, ", loss=0.4")
    assert steps_of(*texts, *more) == [2, 3, None, None]
    assert units_of(*texts) == {"unknown"}


# PyTorch Lightning's bar, by the definition of its `TQDMProgressBar`.


def epoch(number: int, n: int, values: str) -> str:
    return f"Epoch {number}: {100 * n // 500:3d}%|█▏        | {n}/500 [00:05<00:40, 10.90it/s, v_num=0, {values}]"


def test_steps_and_values_are_read() -> None:
    lines = epoch(0, 60, "train_loss=0.693"), epoch(0, 61, "train_loss=0.692"), epoch(1, 5, "train_loss=0.5")
    readings = readings_of(*lines)
    assert [each and each.step for each in readings] == [60, 61, 505]
    assert [each and dict(each.values) for each in readings] == [{"loss": 0.693}, {}, {"loss": 0.5}]
    assert [each and each.bar for each in readings] == [1, 1, 2]


def test_an_evaluation_is_read_when_its_values_change() -> None:
    validation = "Validation DataLoader 0:  50%|#####     | 5/10 [00:00<00:00, 90.1it/s]"
    lines = epoch(0, 500, "val_loss=0.7"), epoch(1, 0, "val_loss=0.7"), epoch(1, 1, "val_loss=0.7")
    readings = readings_of(epoch(0, 499, "train_loss=0.6"), validation, *lines)
    assert [each and each.is_evaluation for each in readings] == [False, True, True, False, False]
    assert [each and each.step for each in readings] == [499, None, 500, 500, 501]
    assert [each and dict(each.values) for each in readings] == [{"loss": 0.6}, {}, {"eval_loss": 0.7}, {}, {}]


# nanoGPT's lines, as its train.py printed them.


def test_the_sequences_of_an_iteration_come_from_the_settings_in_the_log() -> None:
    both = LogFormats(Announcement())
    assert both.logged_batch_size is None
    for line in ("Overriding: batch_size = 4", "Overriding: gradient_accumulation_steps = 2"):
        both.read(line)
    assert both.logged_batch_size == 8
    tokens = LogFormats(Announcement())
    tokens.read("tokens per iteration will be: 16,384")
    assert tokens.logged_batch_size == 0  # not known: the script's default block size is not in the log
    tokens.read("Overriding: block_size = 256")
    assert tokens.logged_batch_size == 64


# Lines of word_language_model, as its main.py printed them.


def test_batches_and_epochs_are_read() -> None:
    batch, epoch, test = readings_of(
        "| epoch   2 |     5/   33 batches | lr 20.00 | ms/batch 14.44 | loss  4.03 | ppl    56.23",
        "| end of epoch   2 | time:  0.47s | valid loss  2.89 | valid ppl    18.01",
        "| End of training | test loss  2.95 | test ppl    19.09",
    )
    assert batch is not None
    assert epoch is not None
    assert test is not None
    assert (batch.step, batch.done) == (38, 39)  # batches count from 0
    assert batch.values == {"learning_rate": 20.0, "loss": 4.03, "perplexity": 56.23}
    assert (epoch.step, epoch.is_evaluation) == (66, True)
    assert epoch.values == {"eval_loss": 2.89, "eval_perplexity": 18.01}
    assert test.values == {"test_loss": 2.95, "test_perplexity": 19.09}
