"""Batch sizes of a script, known only if the script's arguments determine them."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.planning.plan import batch_sizes
from experiments.schema.experiment import Experiment
from tracking.groups.planned_job import BatchSizes


def sizes(hyperparameters: dict[str, Any], **fields: Any) -> BatchSizes | None:
    script = {"source": "code", "hyperparameters": hyperparameters}
    return batch_sizes(Experiment.model_validate({"script": script, **fields}))


def test_the_global_batch_is_known_if_the_script_takes_the_batch() -> None:
    machine = {"devices": 2, "cores": 2}
    assert sizes({"bs": "$batch_size"}, batch_size=8, machine=machine) == BatchSizes(per_update=16, per_batch=16)
    assert sizes({"bs": 8}) is None


def test_a_step_accumulates_batches() -> None:
    both = {"bs": "$batch_size", "gas": "$gradient_accumulation_steps"}
    accumulated = sizes(both, batch_size=8, gradient_accumulation_steps=4)
    assert accumulated == BatchSizes(per_update=32, per_batch=8)


@pytest.mark.parametrize(("value", "is_known"), [(4, False), (1, True), ("1", True)])
def test_accumulation_of_the_scripts_own_is_not_known(value: object, is_known: bool) -> None:
    known = sizes({"bs": "$batch_size", "accumulate_grad_batches": value}, batch_size=8)
    assert (known is not None) == is_known
