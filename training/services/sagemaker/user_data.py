"""Data that users keep in their own buckets: its version, what a manifest lists, and copies of objects.

Nothing here writes to S3; uploads belong to `storage.py`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from state.digests import digest
from training.contract.errors import InputError
from training.contract.s3_location import Location, location_of
from training.services.sagemaker.clients import Clients, head_bucket, translated

MAX_BYTES = 64 * 2**20
"""Largest manifest that is read here, in bytes."""
FORM = 'a JSON list of {"prefix": "s3://BUCKET/PREFIX"} and the rest of each key, as a text'
CHUNK_BYTES = 2**20


@dataclass(frozen=True, kw_only=True)
class StoredData:
    """Version of the objects of a channel."""

    digest: str
    """SHA-256 of keys, sizes and ETags. S3 gives an object that is written again another ETag if its content differs
    (Amazon S3 API Reference, "Object", ETag)."""
    objects: int
    """Number of objects."""
    size_bytes: int
    """Size of all objects together."""
    notes: tuple[str, ...] = ()
    """Sentences for the user before the job starts."""

    @property
    def size_text(self) -> str:
        """Number and size of the objects, for messages."""
        return f"{self.objects:,} object{'s' * (self.objects != 1)}, {self.size_bytes / 1e6:,.1f} MB"


def prefix_data(clients: Clients, field: str, uri: str) -> StoredData:
    """Return the version of all objects whose key begins with the URI, as S3DataType `S3Prefix` takes them.

    Makes one call for the bucket and one for each 1,000 objects. Raises InputError, with the name of the field, if the
    bucket or the objects do not exist or the bucket is in another region, and AccessError if the caller may not list
    it.
    """
    location = location_of(field, uri)
    check_region(clients, field, location)
    objects = list(list_objects(clients, field, location))
    if not any(each["Size"] or not each["Key"].endswith("/") for each in objects):
        raise InputError(
            f"{field} {uri!r}: no object of bucket {location.bucket} has a key that begins with {location.key!r}, and "
            "SageMaker starts no job with an empty channel"
        )
    return version_of(objects, notes=_notes(field, location, objects))


def object_data(clients: Clients, field: str, uri: str) -> StoredData:
    """Return the version of one object, such as a manifest. Raises as `prefix_data` does."""
    location = location_of(field, uri)
    check_region(clients, field, location)
    objects = [each for each in list_objects(clients, field, location) if each["Key"] == location.key]
    if not objects:
        raise InputError(f"{field} {uri!r}: bucket {location.bucket} has no object with the key {location.key!r}")
    return version_of(objects)


def list_objects(clients: Clients, field: str, location: Location) -> Iterator[dict[str, Any]]:
    """Yield Key, Size and ETag of every object whose key begins with the location's key, in the order of the keys.

    Raises as `prefix_data` does, but for the region: S3 itself answers from any.
    """
    pages = clients.get("s3").get_paginator("list_objects_v2").paginate(Bucket=location.bucket, Prefix=location.key)
    with translated(f"{field} {location.uri!r}"):
        try:
            for page in pages:
                yield from page.get("Contents", [])
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchBucket":
                raise
            raise InputError(f"{field} {location.uri!r}: bucket {location.bucket} does not exist") from error


def check_region(clients: Clients, field: str, location: Location) -> None:
    """Raise InputError for a bucket that does not exist or is in another region than the clients.

    "Your input bucket must be located in same Amazon Web Services region as your training job"
    (`S3DataSource.S3Uri`, botocore 1.44.5). The bucket may belong to another account.
    """
    with translated(f"{field} {location.uri!r}"):
        status, region = head_bucket(clients, location.bucket)
    if status == 404:
        raise InputError(f"{field} {location.uri!r}: bucket {location.bucket} does not exist")
    if region != clients.region:
        raise InputError(
            f"{field} {location.uri!r}: bucket {location.bucket} is in {region}, but the jobs run in {clients.region}; "
            "SageMaker reads only buckets in the region of the job"
        )


def version_of(objects: list[dict[str, Any]], *, notes: tuple[str, ...] = ()) -> StoredData:
    """Return the version of objects by their Key, Size and ETag."""
    versions = "".join(f"{each['Key']}\0{each['Size']}\0{each['ETag']}\0" for each in objects)
    size = sum(each["Size"] for each in objects)
    return StoredData(digest=digest(versions), objects=len(objects), size_bytes=size, notes=notes)


def _notes(field: str, location: Location, objects: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return a note if a prefix without a slash at its end takes more than one object or folder.

    `data/abc` takes `data/abc.complete` and `data/abcd/x` as well as `data/abc/x`.
    """
    key = location.key
    others = [each["Key"] for each in objects if each["Key"] != key and not each["Key"].startswith(f"{key}/")]
    if not key or key.endswith("/") or len(others) in (0, len(objects)):
        return ()
    return (
        f"{field} {location.uri!r} also takes other keys that begin with it, such as {others[0]!r}: end it with a "
        "slash.",
    )


def manifest_data(clients: Clients, field: str, uri: str) -> StoredData:
    """Return the version of the objects that a manifest lists, in its order.

    Lists the keys that begin like all of them. Raises InputError, with the name of the field, for a manifest without
    the form of `S3DataSource.S3Uri` (botocore 1.44.5), and for an object that does not exist, and as `prefix_data`.
    """
    own = object_data(clients, field, uri)
    if own.size_bytes > MAX_BYTES:
        raise InputError(f"{field} {uri!r} has {own.size_bytes:,} bytes; a manifest has at most {MAX_BYTES:,}")
    location = location_of(field, uri)
    with translated(f"{field} {uri!r}"):
        content = clients.get("s3").get_object(Bucket=location.bucket, Key=location.key)["Body"].read()
    bucket, keys = manifest_keys(field, uri, content)
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


def download(
    clients: Clients, field: str, location: Location, etag: str, path: Path, *, most_bytes: int | None = None
) -> None:
    """Write an object, or its first `most_bytes`, to `path` as it arrives.

    Raises InputError if its ETag differs: it was written meanwhile.
    """
    part = {} if most_bytes is None else {"Range": f"bytes=0-{most_bytes - 1}"}
    with translated(f"{field} {location.uri!r}"), path.open("wb") as file:
        try:
            response = clients.get("s3").get_object(Bucket=location.bucket, Key=location.key, IfMatch=etag, **part)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] not in (404, 412):
                raise
            raise InputError(
                f"{field} {location.uri!r} has changed since it was listed: run the same command again"
            ) from error
        shutil.copyfileobj(response["Body"], file, CHUNK_BYTES)
