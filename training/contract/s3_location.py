"""Address of a user's data in S3, `s3://bucket/key`, and the region and profile with which it is read. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from training.contract.errors import InputError

SCHEME = "s3://"

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
"""Amazon S3 User Guide, "General purpose bucket naming rules"."""
_MAX_URI_CHARACTERS = 1_024
"""`S3DataSource.S3Uri` of CreateTrainingJob (botocore 1.44.5)."""


@dataclass(frozen=True)
class Location:
    """Bucket, and a key or the beginning of keys."""

    bucket: str
    key: str

    @property
    def uri(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.key}"


def is_s3(text: str) -> bool:
    return text.startswith(SCHEME)


def location_of(field: str, uri: str) -> Location:
    """Return the location of a URI. Everything after the bucket is the key, also `#` and `?`.

    Raises InputError, with the name of the field, for a bucket that cannot exist and for a URI that is too long.
    """
    bucket, _, key = uri.removeprefix(SCHEME).partition("/")
    if not is_s3(uri) or not _BUCKET.fullmatch(bucket):
        raise InputError(
            f"{field} {uri[:80]!r} must be s3://BUCKET/KEY; a bucket has 3 to 63 lower-case letters, digits, dots and "
            "hyphens"
        )
    if len(uri) > _MAX_URI_CHARACTERS:
        raise InputError(
            f"{field} has {len(uri):,} characters; SageMaker allows {_MAX_URI_CHARACTERS:,} in a URI of S3"
        )
    return Location(bucket, key)


@dataclass(frozen=True, kw_only=True)
class AccountFields:
    """Region and profile of an experiment. None takes them from the environment."""

    region: str | None = None
    profile: str | None = None


ANY_ACCOUNT = AccountFields()
