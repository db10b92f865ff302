"""Quotas of the account for the instances of a job, from Service Quotas."""

from __future__ import annotations

from functools import cached_property

from training.contract.errors import QuotaError, ServiceError
from training.contract.job_spec import JobSpec
from training.contract.price import instances_of
from training.contract.service import Echo
from training.services.sagemaker.clients import Clients, translated


class Quotas:
    """Quotas of an account and region. Nothing is refused if they cannot be read."""

    def __init__(self, clients: Clients, note: Echo) -> None:
        """`note` gets a sentence about each quota that was not checked."""
        self._clients, self._note = clients, note

    def check(self, spec: JobSpec) -> None:
        """Raise QuotaError for a job that exceeds a quota even if no other job runs.

        Of a job with fallback instance types, one type must be allowed. A training plan has its own instances.
        """
        if spec.resources.get("TrainingPlanArn"):
            return
        choices = [
            instances_of(spec.resources),
            *({each: spec.instance_count} for each in spec.fallback_instance_types),
        ]
        errors = [self._error(spec, counts) for counts in choices]
        if error := errors[0] if all(errors) else None:
            raise error

    def _error(self, spec: JobSpec, counts: dict[str, int]) -> QuotaError | None:
        usages = ["spot training job usage" if spec.spot else "training job usage"]
        usages += ["training warm pool usage"] if spec.keep_alive_seconds else []
        for name, count in ((f"{kind} for {usage}", count) for usage in usages for kind, count in counts.items()):
            limit = self._limits.get(name) if self._limits else None
            if self._limits and limit is None:
                self._note(f"Note: the quota '{name}' was not checked: Service Quotas does not list it.")
            if limit is not None and limit < count:
                return QuotaError(
                    f"the account's quota '{name}' is {limit:g}, and a job needs {count}: request an increase under "
                    "Service Quotas, SageMaker, or choose another instance type.",
                    name,
                    is_final=True,
                )
        return None

    @cached_property
    def _limits(self) -> dict[str, float]:
        """Value of each quota by its name; empty if they cannot be read."""
        try:
            with translated("Service Quotas"):
                pages = self._clients.get("service-quotas", quick=True).get_paginator("list_service_quotas")
                listed = pages.paginate(ServiceCode="sagemaker", PaginationConfig={"PageSize": 100})
                return {each["QuotaName"]: float(each["Value"]) for page in listed for each in page["Quotas"]}
        except ServiceError as error:
            self._note(f"Note: quotas of instances were not checked: {error}")
            return {}
