"""Checkpoints of earlier versions, which did not record every setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.job.arguments import job_argv
from training.job.processes.reporting import ArgumentError
from training.job.settings.arguments import parse
from training.job.settings.training_identity import check_same

CHECKPOINT = Path("checkpoint-1")


def test_a_checkpoint_without_a_setting_has_the_earlier_value() -> None:
    now, requested = {"seed": 1, "kernels": "torch", "sharding": "none"}, parse(job_argv())
    check_same(CHECKPOINT, {"seed": 1}, now, requested)
    with pytest.raises(ArgumentError, match="kernels was 'torch' and is 'liger', sharding was 'none' and is 'fsdp2'"):
        check_same(CHECKPOINT, {"seed": 1}, {**now, "kernels": "liger", "sharding": "fsdp2"}, requested)
    # PyTorch drew its dropout, as it does now.
    check_same(CHECKPOINT, {"seed": 1, "dropout": "torch"}, now, requested)


def test_an_unrecorded_choice_of_auto_may_be_repeated_but_not_replaced() -> None:
    before, now = (
        {"kernels": "torch", "sharding": "none", "attention": "auto"},
        {"kernels": "torch", "sharding": "none"},
    )
    check_same(CHECKPOINT, before, {**now, "attention": "sdpa"}, parse(job_argv(attention="auto")))
    with pytest.raises(ArgumentError, match="attention was 'auto' and is 'sdpa'"):
        check_same(CHECKPOINT, before, {**now, "attention": "sdpa"}, parse(job_argv(attention="sdpa")))


@pytest.mark.parametrize(
    ("recorded", "difference"),
    [
        ({"dropout": "bulk", "weights": "a"}, "drew the random numbers of dropout in another way"),
        ({"dropout": "torch", "weights": "b"}, "selected the embeddings that it trains in another way"),
    ],
)
def test_a_training_that_this_version_cannot_repeat_is_refused(recorded: dict[str, str], difference: str) -> None:
    now = {"optimizer": "auto", "kernels": "torch", "sharding": "none", "weights": "a"}
    with pytest.raises(ArgumentError) as error:
        check_same(CHECKPOINT, {"optimizer": "auto", **recorded}, now, parse(job_argv()))
    assert str(error.value) == (
        f"checkpoint-1 was written by an earlier version, which {difference}: finish the training with that version, "
        "or use an empty folder for the checkpoints"
    )
