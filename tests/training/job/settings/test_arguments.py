"""The job's arguments: conversion, rules and error messages."""

from __future__ import annotations

import pytest

from tests.support.job.arguments import job_argv
from training.job.processes.reporting import ArgumentError
from training.job.settings.arguments import parse


def test_values_are_converted() -> None:
    changed = {"learning_rate": 1e-4, "epochs": 3, "bucket_lengths": "16,32", "save_model": False}
    arguments = parse(job_argv(**changed, model_revision="v2", model="a folder/with é"))
    assert (arguments.learning_rate, arguments.epochs, arguments.bucket_lengths) == (1e-4, 3.0, (16, 32))
    assert (arguments.save_model, arguments.max_steps, arguments.model_revision) == (False, None, "v2")
    assert arguments.model == "a folder/with é"


def test_a_plan_of_an_earlier_version_is_read() -> None:
    argv = job_argv(batch_size=None, eval_batch_size=None)
    earlier = parse([*argv, "--per_device_batch_size", "4", "--per_device_eval_batch_size", "16", "--dropout", "auto"])
    assert earlier == parse(job_argv(batch_size=4, eval_batch_size=16))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--lerning_rate", "1"], "unknown argument '--lerning_rate'. Did you mean '--learning_rate'?"),
        (["epochs", "1"], "unknown argument 'epochs'"),
        (["--epochs"], "argument epochs has no value"),
        (["--dropout", "bulk"], "argument dropout no longer exists: leave it out, and PyTorch draws the random"),
        (["--epochs", "two"], "epochs must be a number, not 'two'"),
        (["--epochs", "0"], "epochs must be greater than 0.0, not '0'"),
        (["--seed", "1.5"], "seed must be a whole number, not '1.5'"),
        (["--model", ""], "model must have a length of at least 1, not ''"),
        (["--save_model", "yes"], "save_model must be true or false, not 'yes'"),
        (["--compiler", "xla"], "compiler must be one of 'none', 'inductor', 'trcomp', 'trcomp-off', not 'xla'"),
        (["--adam_beta1", "1"], "adam_beta1 must be less than 1.0, not '1'"),
        (["--max_steps", "9"], "epochs 1 and max_steps 9 cannot be combined: set only one"),
        (
            ["--bucket_lengths", "32,16"],
            "bucket_lengths must be ascending whole numbers, such as 16,32,64, not",
        ),
        (["--padding", "buckets"], "padding 'buckets' needs bucket_lengths"),
        (["--padding", "none", "--compiler", "inductor"], "padding 'none' and compiler 'inductor' cannot be combined"),
        (["--padding", "none", "--attention", "eager"], "padding 'none' needs attention 'auto', not 'eager'"),
        (["--eval_strategy", "steps"], "eval_strategy 'steps' requires eval_steps"),
        (
            ["--best_metric", "eval_loss", "--eval_strategy", "epoch"],
            "best_metric 'eval_loss' needs a checkpoint after every evaluation: the job evaluates every epoch",
        ),
        (["--target_metric", "eval_loss"], "target_metric and target_value must be set together"),
        (["--target_stop", "True"], "target_stop is True, but target_metric is not set"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(argv: list[str], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse([*job_argv(), *argv])
    assert str(caught.value).startswith(message)
