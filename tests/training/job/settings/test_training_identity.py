"""Checkpoints of earlier versions, which did not record every setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from reporting.errors import ArgumentError
from settings.arguments import parse
from settings.training_identity import check_same
from tests.support.job.arguments import job_argv

CHECKPOINT = Path("checkpoint-1")


@pytest.mark.parametrize(("name", "earlier", "new"), [("kernels", "torch", "liger"), ("sharding", "none", "fsdp2")])
def test_a_checkpoint_without_a_setting_has_the_earlier_value(name: str, earlier: str, new: str) -> None:
    now, requested = {"seed": 1, "kernels": "torch", "sharding": "none"}, parse(job_argv())
    check_same(CHECKPOINT, {"seed": 1}, now, requested)
    with pytest.raises(ArgumentError, match=f"{name} was '{earlier}' and is '{new}'"):
        check_same(CHECKPOINT, {"seed": 1}, {**now, name: new}, requested)


@pytest.mark.parametrize(("name", "chosen"), [("attention", "sdpa"), ("dropout", "torch")])
def test_an_unrecorded_choice_of_auto_may_be_repeated_but_not_replaced(name: str, chosen: str) -> None:
    before, now = {"kernels": "torch", "sharding": "none", name: "auto"}, {"kernels": "torch", "sharding": "none"}
    check_same(CHECKPOINT, before, {**now, name: chosen}, parse(job_argv(**{name: "auto"})))
    with pytest.raises(ArgumentError, match=f"{name} was 'auto' and is '{chosen}'"):
        check_same(CHECKPOINT, before, {**now, name: chosen}, parse(job_argv(**{name: chosen})))
