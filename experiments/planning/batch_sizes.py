"""Batch sizes that an experiment passes to a script, from which the samples of a step of its log follow."""

from __future__ import annotations

from experiments.schema import script_rules
from experiments.schema.experiment import Experiment
from tracking.groups.planned_job import BatchSizes

_TAKE_BATCH = {"batch_size", "global_batch_size"}
_ACCUMULATION = "accum"
"""Part of the name of every known argument for gradient accumulation, such as `accumulate_grad_batches`."""


def batch_sizes(experiment: Experiment) -> BatchSizes | None:
    """Return the batch sizes; None if the script takes none of the experiment's, or accumulates gradients by itself."""
    assert experiment.script is not None
    fields = script_rules.referenced_fields(experiment.script)
    if not _TAKE_BATCH & set(fields.values()):
        return None
    passes_accumulation = "gradient_accumulation_steps" in fields.values()
    for name, value in script_rules.hyperparameters(experiment).items():
        is_own = _ACCUMULATION in name.lower() and name not in fields
        if is_own and str(value) != "1":
            return None
    if experiment.gradient_accumulation_steps > 1 and not passes_accumulation:
        return None
    per_update = experiment.global_batch_size
    return BatchSizes(per_update=per_update, per_batch=per_update // experiment.gradient_accumulation_steps)
