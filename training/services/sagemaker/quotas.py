"""Quotas of the account for the instances of a job, from Service Quotas."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from training.contract.errors import QuotaError, ServiceError
from training.contract.job_spec import JobSpec
from training.contract.price import instances_of
from training.contract.service import Echo
from training.services.sagemaker.clients import Clients, translated


def quota_check(clients: Clients, note: Echo) -> Callable[[JobSpec], JobSpec]:
    """Return a function that returns a job, or raises QuotaError if it exceeds a quota even if no other job runs.

    Nothing is refused if a quota cannot be read. Then `note` gets a sentence.
    """

    @cache
    def limits() -> dict[str, float]:
        try:
            with translated("Service Quotas"):
                pages = clients.get("service-quotas", quick=True).get_paginator("list_service_quotas")
                listed = pages.paginate(ServiceCode="sagemaker", PaginationConfig={"PageSize": 100})
                return {each["QuotaName"]: float(each["Value"]) for page in listed for each in page["Quotas"]}
        except ServiceError as error:
            note(f"Note: quotas of instances were not checked: {error}")
            return {}

    def check(spec: JobSpec) -> JobSpec:
        usages = ["spot training job usage" if spec.spot else "training job usage"]
        usages += ["training warm pool usage"] if spec.keep_alive_seconds else []
        needed = [
            (f"{kind} for {use}", count) for use in usages for kind, count in instances_of(spec.resources).items()
        ]
        # A training plan has its own instances. Of several instance types, one with a quota suffices.
        for name, count in [] if spec.resources.get("TrainingPlanArn") or spec.fallback_instance_types else needed:
            limit = limits().get(name)
            if limit is None and limits():
                note(f"Note: the quota '{name}' was not checked: Service Quotas does not list it.")
            if limit is not None and limit < count:
                raise QuotaError(
                    f"the account's quota '{name}' is {limit:g}, and a job needs {count}: request an increase under "
                    "Service Quotas, SageMaker, or choose another instance type.",
                    name,
                    is_final=True,
                )
        if spec.fallback_instance_types:
            note(
                "Note: quotas of instances were not checked, because machine.fallback_instance_types may replace them."
            )
        return spec

    return check
