"""The simulated Service Quotas of an account: the quotas of training jobs, in pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import boto3

from tests.support.aws.api import ApiError, Response

USAGES = ("training job usage", "spot training job usage", "training warm pool usage", "endpoint usage")
DENIED = ApiError("AccessDeniedException", "User is not authorized to perform: servicequotas:ListServiceQuotas")
DEFAULT_PAGE = 20


class Quotas:
    """Applied quotas of SageMaker. As for users without the permission, calls are denied until a test allows them."""

    def __init__(self) -> None:
        self.is_allowed = False
        self.values: dict[str, float] = {}
        """Values that differ from 0, the default of new accounts, by the name of the quota."""
        self.unlisted: set[str] = set()
        """Quotas that have no applied value: the API leaves them out."""

    def operations(self) -> dict[str, Any]:
        return {"ListServiceQuotas": self.listed}

    def listed(self, parameters: Mapping[str, Any]) -> Response:
        if not self.is_allowed:
            raise DENIED
        if parameters["ServiceCode"] != "sagemaker":
            raise ApiError("NoSuchResourceException", "The request failed because the specified service does not exist")
        model = boto3.client("sagemaker", region_name="us-east-1").meta.service_model
        names = [f"{kind} for {usage}" for kind in model.shape_for("TrainingInstanceType").enum for usage in USAGES]
        names = [name for name in names if name not in self.unlisted]
        first = int(parameters.get("NextToken", 0))
        last = first + parameters.get("MaxResults", DEFAULT_PAGE)
        quotas = [{"QuotaName": name, "Value": self.values.get(name, 0.0)} for name in names[first:last]]
        more = {"NextToken": str(last)} if last < len(names) else {}
        return {"Quotas": quotas, **more}
