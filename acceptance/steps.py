"""The steps of an acceptance: one for each way to use SageMaker, as small as it can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from acceptance.options import Options

INSTANCE_TYPE = "ml.g4dn.xlarge"
"""The cheapest common GPU type. AWS's Hugging Face images for training need a GPU."""
LIMIT_SECONDS = 240
"""Time limit of each job. Its work takes seconds; a start with a first import of Transformers takes longer."""
WARM_SECONDS = 120
"""Time for which a job of the step `warm-pool` keeps its instance for the next one."""
SPOT_WAIT_SECONDS = 1_800
"""Longest run and waits of a spot job together. A wait costs nothing."""
WAIT_SECONDS = 900
"""Longest wait for the endpoint."""
ENDPOINT_SECONDS = WAIT_SECONDS + 300
"""Lifetime of the endpoint: the wait, a request and its deletion."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One way to use SageMaker."""

    title: str
    jobs: int = 0
    """Training jobs on SageMaker."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    """Fields `machine.*` of the jobs, beside type and time limit."""
    endpoint_seconds: int = 0
    """Longest life of the endpoint, in seconds."""
    quotas: Mapping[str, int] = field(default_factory=dict)
    """Needed quotas: what follows `ml.g4dn.xlarge for ` in the name of the quota, and the least value."""


TRAINING = "training job usage"
STEPS: Mapping[str, Step] = {
    "own-task": Step(title="Train a classifier, and keep its model", jobs=1, quotas={TRAINING: 1}),
    "script": Step(title="Run a training script of one's own", jobs=1, quotas={TRAINING: 1}),
    "spot-stop": Step(
        title="Stop a spot job in the middle, and resume from its checkpoint",
        jobs=2,
        machine={"spot": True, "max_wait_seconds": SPOT_WAIT_SECONDS},
        quotas={"spot training job usage": 1},
    ),
    "two-machines": Step(title="Train on two machines", jobs=1, machine={"instance_count": 2}, quotas={TRAINING: 2}),
    "warm-pool": Step(
        title="Run two jobs in a row on one warm instance",
        jobs=2,
        machine={"keep_alive_seconds": WARM_SECONDS},
        quotas={TRAINING: 1, "training warm pool usage": 1},
    ),
    "endpoint": Step(
        title="Deploy the trained classifier, ask it, and delete it",
        endpoint_seconds=ENDPOINT_SECONDS,
        quotas={"endpoint usage": 1},
    ),
    "managed-mlflow": Step(title="Train on this machine, tracked by managed MLflow"),
}


def chosen_steps(options: Options) -> dict[str, Step]:
    """Return the steps of an acceptance: managed MLflow only if its ARN is given."""
    return {name: step for name, step in STEPS.items() if options.mlflow or name != "managed-mlflow"}


def needed_quotas(steps: Mapping[str, Step]) -> dict[str, int]:
    """Return the quotas that the steps need, by their whole names. Steps run one after the other."""
    needed: dict[str, int] = {}
    for step in steps.values():
        for use, count in step.quotas.items():
            name = f"{INSTANCE_TYPE} for {use}"
            needed[name] = max(count, needed.get(name, 0))
    return needed
