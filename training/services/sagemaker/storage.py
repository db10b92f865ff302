"""What jobs read, put into S3 once: folders and sources keyed by their content."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from training.contract.errors import AccessError, InputError
from training.services.sagemaker.aws_errors import translated
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.upload_progress import Uploading

COMPLETE = ".complete"
"""Written last: without it a prefix is what an upload that was cut short left behind."""
ABSENT = frozenset({"404", "NoSuchKey", "NotFound"})
ELSEWHERE = frozenset({"301", "400", "403"})
PARTS = TransferConfig(multipart_threshold=64 * 2**20, multipart_chunksize=64 * 2**20, max_concurrency=8)

Say = Callable[[str], None]


class Storage:
    """One bucket and prefix, in which everything has a place that its content names."""

    def __init__(self, clients: Clients, bucket: str, prefix: str = "trainfare", key: str | None = None) -> None:
        """`key` is the KMS key of what is written; None is the bucket's own."""
        self._s3 = clients.get("s3")
        self._bucket, self._prefix = bucket, prefix.strip("/")
        self._extra = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key} if key else {}

    def uri(self, *names: str) -> str:
        """Return the address of a place in this storage."""
        return "/".join([f"s3://{self._bucket}", self._prefix, *names])

    def put_folder(self, folder: Path, kind: str, say: Say = lambda _: None) -> str:
        """Upload a folder's files once, and return the prefix that holds them.

        The prefix is named by their content. Files that an earlier upload has brought are left, so that one which was
        cut short goes on where it was; the prefix counts once its last object, `.complete`, is there.
        """
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        digests = {path: _digest(path) for path in files}
        listing = "\n".join(f"{path.relative_to(folder).as_posix()} {digests[path]}" for path in files)
        name = hashlib.sha256(listing.encode()).hexdigest()[:32]
        if self._size(f"{kind}/{name}{COMPLETE}") is not None:
            return self.uri(kind, name)
        self._put_files(folder, files, f"{kind}/{name}", say)
        # Beside the prefix, not in it: a channel holds the data alone.
        self._put(f"{kind}/{name}{COMPLETE}", listing.encode())
        return self.uri(kind, name)

    def put_source(self, folder: Path) -> str:
        """Upload a source folder as the `sourcedir.tar.gz` that the toolkit unpacks; equal sources have one address."""
        archive = packed(folder)
        key = f"source/{hashlib.sha256(archive).hexdigest()[:32]}/sourcedir.tar.gz"
        if self._size(key) != len(archive):
            self._put(key, archive)
        return self.uri(key)

    def has(self, name: str) -> bool:
        """Tell whether an object is there, whole: S3 shows none before its last byte."""
        return self._size(name) is not None

    def exists(self, uri: str) -> bool:
        """Tell whether an object anywhere in S3 is there, by its URI, and may be read from this region."""
        place = urlparse(uri)
        with translated(uri):
            try:
                self._s3.head_object(Bucket=place.netloc, Key=place.path.lstrip("/"))
            except ClientError as error:
                if error.response["Error"]["Code"] in ABSENT | ELSEWHERE:
                    return False
                raise
        return True

    def put_file(self, path: Path, name: str, say: Say = lambda _: None) -> str:
        """Upload a file, however large, in parts, and return its address."""
        uploading = Uploading(path.stat().st_size, self.uri(name), say)
        self._send(path, name, uploading)
        uploading.ended()
        return self.uri(name)

    def _put_files(self, folder: Path, files: list[Path], place: str, say: Say) -> None:
        uploading = Uploading(sum(path.stat().st_size for path in files), self.uri(place), say)
        for path in files:
            size = path.stat().st_size
            key = f"{place}/{path.relative_to(folder).as_posix()}"
            if self._size(key) == size:
                uploading.found(size)
                continue
            self._send(path, key, uploading)
        uploading.ended()

    def _send(self, path: Path, name: str, uploading: Uploading) -> None:
        with translated(self.uri(name)):
            self._s3.upload_file(
                str(path),
                self._bucket,
                self._key(name),
                ExtraArgs=self._extra or None,
                Config=PARTS,
                Callback=uploading.sent,
            )

    def _put(self, key: str, content: bytes) -> None:
        with translated(self.uri(key)):
            self._s3.put_object(Bucket=self._bucket, Key=self._key(key), Body=content, **self._extra)

    def _size(self, key: str) -> int | None:
        """Return the size of an object in bytes, or None where there is none."""
        with translated(self.uri(key)):
            try:
                return int(self._s3.head_object(Bucket=self._bucket, Key=self._key(key))["ContentLength"])
            except ClientError as error:
                if error.response["Error"]["Code"] in ABSENT:
                    return None
                raise

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}"


def packed(folder: Path) -> bytes:
    """Return a folder as `tar.gz`, the same bytes for the same files: no times, no owners, sorted."""
    content = io.BytesIO()
    with gzip.GzipFile(fileobj=content, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        for path in _sources(folder):
            entry = tar.gettarinfo(str(path), arcname=path.relative_to(folder).as_posix())
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
            with path.open("rb") as file:
                tar.addfile(entry, file)
    return content.getvalue()


def _sources(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def session_bucket(clients: Clients, account: str, asked: str | None = None) -> str:
    """Return the bucket to use: the one asked for, else `sagemaker-<region>-<account>`, made where there is none.

    The name is that of SageMaker's SDK. Raises InputError for a bucket in another region, AccessError for one that is
    somebody else's: data must not go there.
    """
    bucket = asked or f"sagemaker-{clients.region}-{account}"
    s3 = clients.get("s3")
    try:
        answer = s3.head_bucket(Bucket=bucket, ExpectedBucketOwner=account)
    except ClientError as error:
        return _missing_bucket(clients, bucket, account, error, made=asked is None)
    found = answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region", clients.region)
    _check_region(bucket, found, clients.region)
    return bucket


def _missing_bucket(clients: Clients, bucket: str, account: str, error: ClientError, *, made: bool) -> str:
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    headers: dict[str, Any] = error.response["ResponseMetadata"].get("HTTPHeaders", {})
    if status == 301:
        _check_region(bucket, headers.get("x-amz-bucket-region", "another region"), clients.region)
    if status == 403:
        raise AccessError(
            f"Bucket {bucket} belongs to another account than {account}, or may not be read: nothing was uploaded."
        ) from error
    if status != 404 or not made:
        raise InputError(f"Bucket {bucket} does not exist: make it, or leave `bucket` out.") from error
    place = {} if clients.region == "us-east-1" else {"LocationConstraint": clients.region}
    with translated(f"Bucket {bucket}"):
        s3 = clients.get("s3")
        s3.create_bucket(Bucket=bucket, **({"CreateBucketConfiguration": place} if place else {}))
    return bucket


def _check_region(bucket: str, found: str, wanted: str) -> None:
    if found != wanted:
        raise InputError(
            f"Bucket {bucket} is in {found}, and the jobs run in {wanted}: SageMaker reads no other region's."
        )
