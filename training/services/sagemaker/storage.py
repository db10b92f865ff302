"""Data in S3: uploads of channels and sources, each once under a key of its content, and the objects of users.

Only `Storage` writes. The rest reads what users keep in their own buckets: its version, manifests, and copies.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from state.digests import KEY_CHARACTERS, digest, listing_of
from training.contract.errors import AccessError, InputError
from training.contract.plain_text import size_text
from training.contract.s3_location import Location, location_of
from training.services.sagemaker.clients import Clients, head_bucket, translated

COMPLETE = "complete"
"""Folder of the objects that are written last, one for each upload. If it does not exist, the upload is incomplete."""
ABSENT = frozenset({"404", "NoSuchKey", "NotFound"})
NOT_READABLE = frozenset({"301", "400", "403"})
"""Error codes for an object in a different region or account."""
PARTS = TransferConfig(multipart_threshold=64 * 2**20, multipart_chunksize=64 * 2**20, max_concurrency=8)
QUIET_SECONDS = 5.0
"""Minimum time between two progress lines."""

Log = Callable[[str], None]


class Storage:
    """A bucket and prefix whose objects have keys derived from their content."""

    def __init__(
        self,
        clients: Clients,
        bucket: str,
        prefix: str = "trainfare",
        key: str | None = None,
        *,
        is_read_only: bool = False,
        missing_bucket: str | None = None,
    ) -> None:
        """Encrypt uploads with the KMS key `key`, or with the bucket's default key if it is None.

        A read-only storage uploads nothing, and lists in `missing_bytes` what it would have uploaded.
        """
        self._s3 = clients.get("s3")
        self._bucket, self._prefix = bucket, prefix.strip("/")
        self.is_read_only = is_read_only
        self.missing_bucket = missing_bucket
        """The bucket, if a read-only storage would first have created it."""
        self.missing_bytes: dict[str, int] = {}
        """Size of each upload that a read-only storage left out, by its URI."""
        self._extra = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key} if key else {}

    def uri(self, *names: str) -> str:
        return "/".join([f"s3://{self._bucket}", self._prefix, *names])

    def put_channel(self, path: Path, kind: str, log: Log = lambda _: None) -> str:
        """Upload a file or the files of a folder once, and return the URI of their prefix, which ends with a slash.

        The prefix is a hash of names and contents. Existing files are skipped, so an interrupted upload resumes where
        it stopped. The upload is complete once its last object exists, in another folder.

        S3DataType `S3Prefix` takes every object whose key begins with the URI.
        """
        files = channel_files(path)
        listing = listing_of(files)
        name = digest(listing, KEY_CHARACTERS)
        uri, marker = f"{self.uri(kind, name)}/", f"{COMPLETE}/{kind}/{name}"
        if self._size(marker) is not None:
            return uri
        if self.is_read_only:
            return self._left_out(uri, sum(file.stat().st_size for file in files.values()))
        self._put_files(files, f"{kind}/{name}", log)
        self._put(marker, listing.encode())
        return uri

    def put_source(self, folder: Path, requirements: Sequence[str] = ()) -> str:
        """Upload a source folder as the `sourcedir.tar.gz` that the toolkit unpacks. Equal sources share a URI.

        `requirements` are the lines of an additional file `requirements.txt`.
        """
        archive = pack_source(folder, requirements)
        key = f"source/{digest(archive, KEY_CHARACTERS)}/sourcedir.tar.gz"
        if self._size(key) != len(archive):
            if self.is_read_only:
                return self._left_out(self.uri(key), len(archive))
            self._put(key, archive)
        return self.uri(key)

    def _left_out(self, uri: str, size: int) -> str:
        self.missing_bytes[uri] = size
        return uri

    def has(self, name: str) -> bool:
        """Return whether an object exists in this storage. S3 lists only complete objects."""
        return self._size(name) is not None

    def exists(self, uri: str) -> bool:
        """Return whether an S3 URI names an object that can be read from this region."""
        location = urlparse(uri)
        with translated(uri):
            try:
                self._s3.head_object(Bucket=location.netloc, Key=location.path.lstrip("/"))
            except ClientError as error:
                if error.response["Error"]["Code"] in ABSENT | NOT_READABLE:
                    return False
                raise
        return True

    def put_file(self, path: Path, name: str, log: Log = lambda _: None) -> str:
        progress = UploadProgress(path.stat().st_size, self.uri(name), log)
        self._send(path, name, progress)
        progress.finish()
        return self.uri(name)

    def _put_files(self, files: Mapping[str, Path], prefix: str, log: Log) -> None:
        progress = UploadProgress(sum(path.stat().st_size for path in files.values()), self.uri(prefix), log)
        for name, path in files.items():
            size = path.stat().st_size
            key = f"{prefix}/{name}"
            if self._size(key) == size:
                progress.skip(size)
                continue
            self._send(path, key, progress)
        progress.finish()

    def _send(self, path: Path, name: str, progress: UploadProgress) -> None:
        with translated(self.uri(name)):
            self._s3.upload_file(
                str(path),
                self._bucket,
                self._key(name),
                ExtraArgs=self._extra or None,
                Config=PARTS,
                Callback=progress.add,
            )

    def _put(self, key: str, content: bytes) -> None:
        with translated(self.uri(key)):
            self._s3.put_object(Bucket=self._bucket, Key=self._key(key), Body=content, **self._extra)

    def _size(self, key: str) -> int | None:
        with translated(self.uri(key)):
            try:
                return int(self._s3.head_object(Bucket=self._bucket, Key=self._key(key))["ContentLength"])
            except ClientError as error:
                if error.response["Error"]["Code"] in ABSENT:
                    return None
                raise

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}"


def pack_source(folder: Path, requirements: Sequence[str] = ()) -> bytes:
    """Return a folder as `tar.gz`. Equal files give equal bytes: sorted, without times and owners, under any umask."""
    content = io.BytesIO()
    with gzip.GzipFile(fileobj=content, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            entry = tar.gettarinfo(str(path), arcname=path.relative_to(folder).as_posix())
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
            entry.mode = 0o755 if entry.mode & 0o100 else 0o644
            with path.open("rb") as file:
                tar.addfile(entry, file)
        if requirements:
            lines = "".join(f"{line}\n" for line in requirements).encode()
            entry = tarfile.TarInfo("requirements.txt")
            entry.size = len(lines)
            tar.addfile(entry, io.BytesIO(lines))
    return content.getvalue()


def find_bucket(clients: Clients, account: str, name: str | None = None) -> tuple[str, bool]:
    """Return the bucket `name`, or else the default bucket `sagemaker-<region>-<account>`, and whether it exists.

    SageMaker's SDK has the same default. Raises InputError for a bucket in a different region, or a missing bucket
    `name`, and AccessError for a bucket of a different account, which must not receive data.
    """
    bucket = name or f"sagemaker-{clients.region}-{account}"
    with translated(f"Bucket {bucket}"):
        status, region = head_bucket(clients, bucket, 403, ExpectedBucketOwner=account)
    if status == 403:
        raise AccessError(
            f"Bucket {bucket} does not belong to account {account}, or access is denied. Nothing was uploaded."
        )
    if status == 404 and name:
        raise InputError(f"Bucket {bucket} does not exist: create it, or do not set aws.bucket.")
    if region != clients.region:
        raise InputError(
            f"Bucket {bucket} is in {region}, but the jobs run in {clients.region}; "
            "SageMaker reads only buckets in the region of the job."
        )
    return bucket, status != 404


def create_bucket(clients: Clients, bucket: str) -> None:
    region = clients.region
    location = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    with translated(f"Bucket {bucket}"):
        clients.get("s3").create_bucket(Bucket=bucket, **location)


def channel_files(path: Path) -> dict[str, Path]:
    """Return the files of a channel by their names in it, sorted: a single file, or all of a folder and its links."""
    if path.is_file():
        files = [path]
        root = path.parent
    else:
        folders = os.walk(path, followlinks=True)
        files = sorted(file for parent, _, names in folders for file in (Path(parent, name) for name in names))
        root = path
    return {file.relative_to(root).as_posix(): file for file in files if file.is_file()}


def local_folder(uri: str) -> Path | None:
    """Return the path of a `file://` URI, or None for any other URI."""
    return Path(unquote(urlparse(uri).path)) if uri.startswith("file://") else None


def check_channels(channels: Mapping[str, str]) -> None:
    """Raise InputError for an empty channel of this machine. `channels` are URIs by name."""
    for name, uri in channels.items():
        if (path := local_folder(uri)) and not channel_files(path):
            raise InputError(
                f"Channel '{name}': {path} contains no file, and SageMaker starts no job with an empty channel."
            )


class UploadProgress:
    """Thread-safe counter of uploaded bytes that logs its progress."""

    def __init__(
        self, total_bytes: int, uri: str, log: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`uri` is the target of the upload, for messages."""
        self._total, self._uri, self._log, self._clock = total_bytes, uri, log, clock
        self._sent = self._skipped = 0
        self._logged_at = clock()
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        with self._lock:
            self._sent += count
            if self._clock() - self._logged_at >= QUIET_SECONDS:
                self._logged_at = self._clock()
                self._log(f"  {size_text(self._sent + self._skipped)} of {size_text(self._total)} uploaded")

    def skip(self, count: int) -> None:
        """Count bytes that an earlier upload had already uploaded."""
        with self._lock:
            self._skipped += count

    def finish(self) -> None:
        skipped = f" ({size_text(self._skipped)} were already uploaded)" if self._skipped else ""
        self._log(f"Uploaded {size_text(self._sent)} to {self._uri}{skipped}")


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

    @property
    def size_text(self) -> str:
        """Number and size of the objects, for messages."""
        return f"{self.objects:,} object{'s' * (self.objects != 1)}, {self.size_bytes / 1e6:,.1f} MB"


def prefix_data(clients: Clients, field: str, uri: str) -> StoredData:
    """Return the version of all objects whose key begins with the URI, as S3DataType `S3Prefix` takes them.

    Makes one call for the bucket and one for each 1,000 objects. Raises InputError, with the name of the field, if the
    bucket or the objects do not exist or the bucket is in another region, and for a folder whose URI lacks its slash
    and so takes other objects too: `data/abc` takes `data/abcd/x`. Raises AccessError if the caller may not list it.
    """
    location = location_of(field, uri)
    check_region(clients, field, location)
    objects = list(list_objects(clients, field, location))
    if not any(each["Size"] or not each["Key"].endswith("/") for each in objects):
        raise InputError(
            f"{field} {uri!r}: no object of bucket {location.bucket} has a key that begins with {location.key!r}, and "
            "SageMaker starts no job with an empty channel"
        )
    key = location.key
    others = [each["Key"] for each in objects if each["Key"] != key and not each["Key"].startswith(f"{key}/")]
    if key and not key.endswith("/") and 0 < len(others) < len(objects):
        raise InputError(
            f"{field} {uri!r} also takes other keys that begin with it, such as {others[0]!r}: end a folder with a "
            "slash, or rename the others"
        )
    return version_of(objects)


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


def version_of(objects: list[dict[str, Any]]) -> StoredData:
    """Return the version of objects by their Key, Size and ETag."""
    versions = "".join(f"{each['Key']}\0{each['Size']}\0{each['ETag']}\0" for each in objects)
    size = sum(each["Size"] for each in objects)
    return StoredData(digest=digest(versions), objects=len(objects), size_bytes=size)


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
