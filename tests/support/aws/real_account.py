"""A real AWS account, in which tests may spend a budget: `pytest -m aws --role ROLE --budget USD`."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Mapping

import pytest

from state.home import home
from training.contract.job_spec import JobSpec
from training.contract.price import Price
from training.contract.price_table import table_price
from training.services.budget import Budget, worst_case
from training.services.sagemaker.aws_context import open_aws_context
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.machines import default_image
from training.services.sagemaker.prices import listed_price
from training.services.sagemaker.service import SageMakerService

CPU_TYPE = "ml.m5.large"
"""Instance type of scripts: a common type with a low price."""
GPU_TYPE = "ml.g4dn.xlarge"
"""Instance type of our own training: the cheapest common type that AWS's Hugging Face images run on."""
LIMIT_SECONDS = 240
"""Time limit of a script's job, whose work takes seconds."""


class RealAccount:
    """The user's account, with the rest of the budget."""

    def __init__(self, fields: Mapping[str, str], budget_usd: float) -> None:
        """Open the account. `fields` are those of `aws`. Raises AccessError or InputError if it is not ready."""
        self.fields = fields
        self.clients = Clients(fields.get("region"))
        self.context = open_aws_context(fields, self.clients)
        self.service = SageMakerService(self.clients)
        self.prefix = f"accept-{secrets.token_hex(2)}"
        """Start of the names of all jobs of these tests."""
        self._free = Budget(max_usd=budget_usd)
        self._numbers = itertools.count(1)

    @property
    def cpu_image(self) -> str:
        """AWS's image for scripts on `CPU_TYPE`."""
        spec = JobSpec(**NO_INPUT, name="image", instance_type=CPU_TYPE, is_script=True)
        return default_image(spec, self.clients.region)

    def job_name(self, name: str) -> str:
        """Return a new name of a job."""
        return f"{self.prefix}-{next(self._numbers)}-{name}"

    def reserve(self, spec: JobSpec) -> float:
        """Take the most that a job can cost from the budget, and return it in US dollars. Skip the test if it is more
        than the rest."""
        amount = worst_case(spec, self._price(spec.instance_type))
        if amount.usd is None:
            pytest.fail(f"the price of {spec.instance_type} is unknown, so the cost has no limit: give --prices FILE")
        if not self._free.allows(amount):
            pytest.skip(
                f"the job can cost {amount.usd:.3f} USD, and {self._free.max_usd:.3f} USD of the budget are left"
            )
        self._free = self._free.left(amount)
        return amount.usd

    def reserve_training(self, **machine: object) -> float:
        """Reserve a job of a command with these fields of `machine`."""
        return self.reserve(JobSpec(**NO_INPUT, name="job", **machine))

    def running_jobs(self) -> list[str]:
        """Return the names of the jobs of these tests that still run, newest first."""
        names = [str(each["TrainingJobName"]) for each in self.service.jobs(running_only=True)]
        return [name for name in names if name.startswith(self.prefix)]

    def stop_jobs(self) -> list[str]:
        """Stop the jobs of these tests that still run, and return their names."""
        left = self.running_jobs()
        for name in left:
            self.service.stop(name)
        return left

    def _price(self, instance_type: str) -> Price | None:
        if table := self.fields.get("prices"):
            return table_price(table, instance_type, "aws.prices")
        return listed_price(self.clients, instance_type, home() / "prices.json", print, is_read_only=True)


NO_INPUT = {
    "hyperparameters": {},
    "channels": {},
    "source_uri": "s3://bucket/source",
    "output_uri": "s3://bucket/output",
}
"""Fields of a job that do not decide its cost."""
