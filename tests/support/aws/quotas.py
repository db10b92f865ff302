"""Service Quotas of an account: the quotas of SageMaker that a test has set, in pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.aws.api import ApiError, Response

PAGE = 2
"""Quotas of each page, whatever the request says."""


class Quotas:
    """The account's quotas by name. A test may set them; training and hosting do not read them."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def operations(self) -> dict[str, Any]:
        return {"ListServiceQuotas": self.listed}

    def listed(self, parameters: Mapping[str, Any]) -> Response:
        if parameters["ServiceCode"] != "sagemaker":
            raise ApiError(
                "NoSuchResourceException", "The request failed because the specified service does not exist."
            )
        first = int(parameters.get("NextToken", 0))
        names = sorted(self.values)[first : first + PAGE]
        quotas = [{"ServiceCode": "sagemaker", "QuotaName": name, "Value": self.values[name]} for name in names]
        more = {"NextToken": str(first + PAGE)} if first + PAGE < len(self.values) else {}
        return {"Quotas": quotas, **more}
