"""Differences between AWS's partitions: China, GovCloud and the others. Pure, from botocore's data."""

from __future__ import annotations

from functools import cache

from botocore.exceptions import UnknownRegionError
from botocore.loaders import Loader
from botocore.regions import EndpointResolver

CONSOLES = {
    "aws": "console.aws.amazon.com",
    "aws-cn": "console.amazonaws.cn",
    "aws-us-gov": "console.amazonaws-us-gov.com",
}
"""Host of the AWS console of each partition. Those of the isolated partitions are not public."""
COMMERCIAL = "aws"
PRICE_LIST_REGIONS = {COMMERCIAL: "us-east-1"}
"""Region of the price list in partitions that have several."""


@cache
def _resolver() -> EndpointResolver:
    return EndpointResolver(Loader().load_data("endpoints"))


def partition_of(region: str) -> str:
    """Return the partition of a region, such as `aws-cn`. A region that botocore does not know counts as `aws`."""
    try:
        return str(_resolver().get_partition_for_region(region))
    except UnknownRegionError:
        return COMMERCIAL


def log_address(region: str, group: str, stream_prefix: str = "") -> str:
    """Return the address of a log group in the AWS console, or its name in partitions without a known console.

    With a `stream_prefix`, the console shows only the streams whose names begin with it.
    """
    host = CONSOLES.get(partition_of(region))
    if host is None:
        return f"CloudWatch log group {group} in {region}" + (f", streams {stream_prefix}*" if stream_prefix else "")
    streams = f"$3FlogStreamNameFilter$3D{stream_prefix.replace('/', '$252F')}" if stream_prefix else ""
    return (
        f"https://{region}.{host}/cloudwatch/home?region={region}"
        f"#logsV2:log-groups/log-group/{group.replace('/', '$252F')}{streams}"
    )


def price_list_region(region: str) -> str | None:
    """Return the region of the price list API in the partition of a region; None if it has no price list."""
    partition = partition_of(region)
    listed = sorted(_resolver().get_available_endpoints("api.pricing", partition))
    return PRICE_LIST_REGIONS.get(partition, listed[0] if listed else None)
