"""Objects that a manifest lists: `[{"prefix": "s3://bucket/rows/"}, "a.csv", "b.csv"]`."""

from __future__ import annotations

import json
import os
from typing import Any

from training.contract.errors import InputError
from training.services.sagemaker.aws_errors import translated
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.user_data.listing import StoredData, list_objects, object_data, version_of
from training.services.sagemaker.user_data.location import Location, location_of

MAX_BYTES = 64 * 2**20
"""Largest manifest that is read here, in bytes."""
FORM = 'a JSON list of {"prefix": "s3://BUCKET/PREFIX"} and the rest of each key, as a text'


def manifest_data(clients: Clients, field: str, uri: str) -> StoredData:
    """Return the version of the objects that a manifest lists, in its order.

    Lists the keys that begin like all of them. Raises InputError, with the name of the field, for a manifest without
    the form of `S3DataSource.S3Uri` (botocore 1.44.5), and for an object that does not exist, and as `prefix_data`.
    """
    own = object_data(clients, field, uri)
    if own.size_bytes > MAX_BYTES:
        raise InputError(f"{field} {uri!r} has {own.size_bytes:,} bytes; a manifest has at most {MAX_BYTES:,}")
    bucket, keys = manifest_keys(field, uri, _content(clients, field, location_of(field, uri)))
    beginning = Location(bucket, os.path.commonprefix(list(keys)))  # noqa: RUF071 - keys are no paths
    listed = {each["Key"]: each for each in list_objects(clients, field, beginning) if each["Key"] in keys}
    missing = next((key for key in keys if key not in listed), None)
    if missing is not None:
        raise InputError(f"{field} {uri!r} lists an object that does not exist: s3://{bucket}/{missing}")
    return version_of([listed[key] for key in keys])


def manifest_keys(field: str, uri: str, content: bytes) -> tuple[str, dict[str, None]]:
    """Return the bucket and the keys of a manifest, in its order and each once. Raises InputError."""
    try:
        first, *rest = json.loads(content)
        prefix = location_of(field, first["prefix"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{field} {uri!r} is no manifest, which is {FORM}") from error
    if not rest or not all(isinstance(each, str) for each in rest):
        raise InputError(f"{field} {uri!r} is no manifest with objects, which is {FORM}")
    return prefix.bucket, dict.fromkeys(f"{prefix.key}{each}" for each in rest)


def _content(clients: Clients, field: str, location: Location) -> bytes:
    with translated(f"{field} {location.uri!r}"):
        response: dict[str, Any] = clients.get("s3").get_object(Bucket=location.bucket, Key=location.key)
        return bytes(response["Body"].read())
