"""Read the steps of Trainer's dicts from what Transformers' Trainer prints."""

from __future__ import annotations

from tracking.recording.trainer_log import Announcement, TrainerSteps, bar_of

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


def test_a_dropped_last_batch_makes_an_epoch_shorter() -> None:
    # 100 rows are 6 whole batches of 16, and 4 rows are left over.
    dropped = announcement(GLUE.replace("= 14", "= 12"))
    assert [dropped.step_at(epoch) for epoch in (0.5, 1.0, 1.5, 2.0)] == [3, 6, 9, 12]
    assert [dropped.samples_after(steps) for steps in (6, 12)] == [96, 192]
    # Here a limit ends the training in its second epoch.
    limited = announcement("max_steps is given, it will override num_train_epochs\n" + GLUE.replace("= 14", "= 12"))
    assert [limited.step_at(epoch) for epoch in (1.0, 2.0)] == [7, 14]


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


def test_only_bars_of_steps_are_read() -> None:
    read = bar_of("Epoch 3/9:  12%|█▏        | 60/500 [1:00:05<7:20:40, 10.90s/it, loss=0.69, lr=1e-05, val_acc=nan]")
    assert read is not None
    assert (read.description, read.n, read.total) == ("Epoch 3/9", 60, 500)
    assert bar_of("  0%|          | 0/14 [00:00<?, ?it/s]") is not None
    for other in (
        "Running tokenizer on dataset: 100%|##| 100/100 [00:00<00:00, 6438.12 examples/s]",
        "model.safetensors: 100%|##| 91.0M/91.0M [00:01<00:00, 80.2MB/s]",
        "100%|##| 5/4 [00:01<00:00, 1.0it/s]",
    ):
        assert bar_of(other) is None
