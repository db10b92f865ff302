"""The job's arguments: conversion and error messages."""

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


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--epoch", "1"], "unknown argument '--epoch'"),
        (["--compiler", "xla"], "compiler must be one of 'none', 'inductor', not 'xla'"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(argv: list[str], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse([*job_argv(), *argv])
    assert str(caught.value).startswith(message)
