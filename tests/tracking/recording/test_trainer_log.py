"""Read the steps of Trainer's dicts from what Transformers' Trainer prints."""

from __future__ import annotations

from tracking.recording.trainer_log import TrainerSteps, bar_of

# Steps of Trainer's dicts, from its epochs and its progress bar.


def trainer_bar(n: int, total: int) -> str:
    return f"{100 * n // total:3d}%|#         | {n}/{total} [00:00<00:05, 18.23it/s]"


def after_bar(n: int, epoch: float, total: int) -> TrainerSteps:
    """Return the converter after one dict, whose step the bar has shown."""
    steps = TrainerSteps()
    steps.read(trainer_bar(n - 3, total))  # an old state, before the dict
    assert steps.read(trainer_bar(n, total), epoch) == n
    return steps


def test_later_steps_follow_from_their_epochs() -> None:
    steps = after_bar(5, 0.1316, 114)
    assert [steps.step_at(epoch) for epoch in (0.1316, 0.2632, 1.0, 1.053, 2.895)] == [5, 10, 38, 40, 110]
    assert steps.last_step == 114
    limited = after_bar(7, 0.1842, 50)  # the script limits the steps
    assert [limited.step_at(epoch) for epoch in (0.5263, 9.0)] == [20, 50]
    begun = TrainerSteps()
    assert (begun.step_at(0.5), begun.last_step) == (None, None)


def test_only_bars_of_steps_are_read() -> None:
    assert bar_of("12%|█▏        | 60/500 [1:00:05<7:20:40, 10.90s/it, loss=0.69, lr=1e-05, val_acc=nan]") == (60, 500)
    assert bar_of("  0%|          | 0/14 [00:00<?, ?it/s]") is not None
    for other in (
        "Epoch 3/9:  12%|#         | 60/500 [1:00:05<7:20:40, 10.90s/it]",
        "Running tokenizer on dataset: 100%|##| 100/100 [00:00<00:00, 6438.12 examples/s]",
        "model.safetensors: 100%|##| 91.0M/91.0M [00:01<00:00, 80.2MB/s]",
        "100%|##| 5/4 [00:01<00:00, 1.0it/s]",
    ):
        assert bar_of(other) is None
