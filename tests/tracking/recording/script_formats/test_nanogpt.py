"""nanoGPT's lines, as its train.py printed them."""

from __future__ import annotations

from tracking.recording.script_formats.nanogpt import NanoGpt


def test_iterations_and_evaluations_are_read() -> None:
    format = NanoGpt()
    evaluated = format.read("step 10: train loss 10.8345, val loss 10.8186")
    iterated = format.read("iter 10: loss 10.8121, time 327.62ms, mfu -100.00%")
    assert evaluated is not None
    assert iterated is not None
    assert (evaluated.step, evaluated.done, evaluated.is_evaluation) == (10, 10, True)
    assert evaluated.values == {"train_loss": 10.8345, "eval_loss": 10.8186}
    # The evaluation comes before iteration 10, the line of the iteration after it.
    assert (iterated.step, iterated.done, iterated.values) == (10, 11, {"loss": 10.8121})
    assert format.read("step 10 of the plan: train loss") is None


def test_the_sequences_of_an_iteration_come_from_the_settings_in_the_log() -> None:
    both = NanoGpt()
    assert both.logged_batch_size is None
    for line in ("Overriding: batch_size = 4", "Overriding: gradient_accumulation_steps = 2"):
        both.read(line)
    assert both.logged_batch_size == 8
    tokens = NanoGpt()
    tokens.read("tokens per iteration will be: 16,384")
    assert tokens.logged_batch_size == 0  # not known: the script's default block size is not in the log
    tokens.read("Overriding: block_size = 256")
    assert tokens.logged_batch_size == 64
