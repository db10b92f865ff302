"""Copy one object to a file, in the version that was listed."""

from __future__ import annotations

import shutil
from pathlib import Path

from botocore.exceptions import ClientError

from training.contract.errors import InputError
from training.services.sagemaker.aws_errors import translated
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.user_data.location import Location

CHUNK_BYTES = 2**20


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
