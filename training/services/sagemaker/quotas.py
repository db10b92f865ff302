"""Quotas of SageMaker in the account, read from Service Quotas."""

from __future__ import annotations

from collections.abc import Iterable

from training.services.sagemaker.aws_errors import translated
from training.services.sagemaker.clients import Clients


def quota_values(clients: Clients, names: Iterable[str]) -> dict[str, float]:
    """Return the values of the named quotas of SageMaker, such as `ml.g4dn.xlarge for training job usage`.

    Quotas that Service Quotas does not list are left out. Raises AccessError or ServiceError if the list cannot be
    read. SageMaker has over a thousand quotas, and the API has no filter by name, so this takes a dozen calls.
    """
    chosen = set(names)
    with translated("Service Quotas"):
        paginator = clients.get("service-quotas", quick=True).get_paginator("list_service_quotas")
        pages = paginator.paginate(ServiceCode="sagemaker", PaginationConfig={"PageSize": 100})
        quotas = [each for page in pages for each in page["Quotas"]]
    return {each["QuotaName"]: float(each["Value"]) for each in quotas if each["QuotaName"] in chosen}
