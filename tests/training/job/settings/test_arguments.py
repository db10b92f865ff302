"""The job's arguments: conversion, rules and error messages."""

from __future__ import annotations

import pytest

from tests.support.job.arguments import ARGUMENTS, job_argv
from training.job.processes.reporting import ArgumentError
from training.job.settings.arguments import REQUIRED, RULES, Arguments, parse


def test_values_are_converted() -> None:
    changed = {"learning_rate": 1e-4, "epochs": 3, "bucket_lengths": "16,32", "save_model": False}
    arguments = parse(job_argv(**changed, model_revision="v2", model="a folder/with é"))
    assert (arguments.learning_rate, arguments.epochs, arguments.bucket_lengths) == (1e-4, 3.0, (16, 32))
    assert (arguments.save_model, arguments.max_steps, arguments.model_revision) == (False, None, "v2")
    assert arguments.model == "a folder/with é"


def test_every_field_without_a_default_is_required() -> None:
    assert sorted(REQUIRED) == sorted(ARGUMENTS)
    assert set(RULES) <= set(Arguments.__dataclass_fields__)
    with pytest.raises(ArgumentError, match=r"^missing argument: seed$"):
        parse(job_argv(seed=None))
    with pytest.raises(ArgumentError, match=r"^missing arguments: task, weights, compiler, .*, steady_after_steps$"):
        parse([])


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
        (["--epochs", "two"], "epochs is 'two': it must be a finite number"),
        (["--epochs", "0"], "epochs is '0': it must be above 0"),
        (["--seed", "1.5"], "seed is '1.5': it must be a whole number"),
        (["--save_model", "yes"], "save_model is 'yes': it must be True or False"),
        (["--compiler", "xla"], "compiler is 'xla': it must be one of none, inductor, trcomp, trcomp-off"),
        (["--adam_beta1", "1"], "adam_beta1 is '1': it must be at least 0 and below 1"),
        (["--max_steps", "9"], "set exactly one of epochs and max_steps"),
        (["--bucket_lengths", "32,16"], "bucket_lengths is '32,16': it must be ascending whole numbers"),
        (["--padding", "buckets"], "padding 'buckets' needs bucket_lengths"),
        (["--padding", "none", "--compiler", "inductor"], "padding 'none' and compiler 'inductor' cannot be combined"),
        (["--padding", "none", "--attention", "eager"], "padding 'none' needs attention 'auto', not 'eager'"),
        (["--eval_strategy", "steps"], "eval_strategy 'steps' requires eval_steps"),
        (
            ["--best_metric", "eval_loss", "--eval_strategy", "epoch"],
            "best_metric is 'eval_loss': every evaluation needs",
        ),
        (["--target_metric", "loss"], "target_metric and target_value must be set together"),
        (["--target_stop", "True"], "target_stop is True, but target_metric is not set"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(argv: list[str], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse([*job_argv(), *argv])
    assert str(caught.value).startswith(message)
