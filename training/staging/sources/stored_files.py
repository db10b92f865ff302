"""Files of one source that are in S3: identified by their ETags, and copied here only while they are staged."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from training.contract.errors import InputError
from training.services.sagemaker.user_data.account_fields import AccountFields
from training.services.sagemaker.user_data.location import Location, location_of
from training.staging.formats.readers import BINARY, reader_name
from training.staging.formats.row import Row
from training.staging.formats.text_format import TextFormat
from training.staging.sources.data_files import IGNORED, DataFiles
from training.state.digests import UNFINISHED_PREFIX


class StoredFiles:
    """An object (`s3://bucket/rows.csv`), or those of a folder (`s3://bucket/rows/`) in the order of their keys.

    Their suffix determines their format. Call `close` to delete the copies.
    """

    def __init__(self, field: str, uri: str, folder: Path, account: AccountFields) -> None:
        """List the objects. Copies go into a temporary folder within `folder`. Raises InputError, AccessError."""
        from training.services.sagemaker.clients import Clients
        from training.services.sagemaker.user_data.listing import list_objects, version_of

        self._field, self._folder, self._clients = field, folder, Clients(account.region, account.profile)
        self._location = location_of(field, uri)
        objects = list(list_objects(self._clients, field, self._location))
        self._objects = _data(field, self._location, objects)
        self._version = version_of(self._objects)
        self._copies: Path | None = None
        self._uris: dict[str, str] = {}

    def digest(self, text: TextFormat) -> str:
        """Return text that identifies the rows by the version of the objects and the format of texts."""
        is_text = reader_name(Path(self._objects[0]["Key"])) not in BINARY
        return f"s3 {self._version.digest}{text.identity if is_text else ''}"

    @property
    def description(self) -> str:
        """URI with the number and size of the objects."""
        return f"{self._location.uri} ({self._version.size_text})"

    def copies(self) -> DataFiles:
        """Return copies of the objects, which are made once. Raises InputError if one has changed since the listing."""
        if self._copies is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            # Copies that a killed process left are deleted like its unfinished stagings.
            self._copies = Path(tempfile.mkdtemp(prefix=UNFINISHED_PREFIX, dir=self._folder))
            self._copy(self._copies)
        return DataFiles(name=self._location.uri, paths=tuple(map(Path, self._uris)))

    def _copy(self, folder: Path) -> None:
        from training.services.sagemaker.user_data.download import download

        for number, each in enumerate(self._objects):
            location = Location(self._location.bucket, each["Key"])
            # A key may be no name of a file; only its suffixes matter.
            path = folder / f"{number:05}{''.join(PurePosixPath(each['Key']).suffixes[-2:])}"
            download(self._clients, self._field, location, each["ETag"], path)
            self._uris[str(path)] = location.uri

    def with_uris(self, text: str) -> str:
        """Return a message with the URIs in place of the paths of the copies."""
        for path, uri in self._uris.items():
            text = text.replace(path, uri)
        return text

    def renamed(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield the rows. An InputError names the object in place of its copy."""
        try:
            yield from rows
        except InputError as error:
            error.args = (self.with_uris(str(error)),)
            raise

    def close(self) -> None:
        """Delete the copies."""
        if self._copies is not None:
            shutil.rmtree(self._copies, ignore_errors=True)
            self._copies, self._uris = None, {}


def _data(field: str, location: Location, objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the objects with data, all of one format. Hidden files and those of Spark are left out of a folder."""
    key = location.key
    if key.endswith("/") or not key:
        named = [each for each in objects if each["Key"] != key and not each["Key"][len(key) :].startswith(IGNORED)]
        inner = next((each["Key"] for each in named if "/" in each["Key"][len(key) :]), None)
        if inner is not None:
            raise InputError(f"{field} {location.uri!r} has the folder of {inner!r}: name one folder of data files")
    else:
        named = [each for each in objects if each["Key"] == key]
    if not named:
        hint = "" if key.endswith("/") else "; a folder ends with a slash"
        raise InputError(f"{field} {location.uri!r}: bucket {location.bucket} has no such object{hint}")
    for each in named:
        if each["Size"] == 0:
            raise InputError(f"{field}: s3://{location.bucket}/{each['Key']} is empty")
    _check_formats(field, [each["Key"] for each in named])
    return named


def _check_formats(field: str, keys: Sequence[str]) -> None:
    try:
        formats = {reader_name(Path(key)): key for key in keys}
    except InputError as error:
        raise InputError(f"{field}: {error}") from error
    if len(formats) > 1:
        first, second, *_ = formats.values()
        raise InputError(f"{field}: the objects must have one format, but {first!r} and {second!r} differ")
