"""Files of one source that are in S3: identified by their ETags, and copied here only while they are staged."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from state.folders import UNFINISHED_PREFIX
from training.contract.errors import InputError
from training.contract.s3_location import AccountFields, Location, location_of
from training.staging.formats.files import Row, is_packed
from training.staging.formats.readers import BINARY, reader_name
from training.staging.formats.text import TextFormat
from training.staging.sources.data_files import IGNORED, DataFiles

START_BYTES = 8 * 2**20
"""Bytes of the objects that a plan reads. They hold the 1,000 rows of its sample, unless rows are very long."""
LINES = frozenset({".jsonl", ".ndjson", ".csv", ".tsv", ".txt"})
"""Formats whose rows can be read from the start of a file, and counted from its size."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """Files of which the first rows are read, and from which the number of all rows follows."""

    files: DataFiles
    scales: Mapping[Path, float] = field(default_factory=dict)
    """Bytes that a file stands for, as a multiple of its size; 1 for a file that is missing."""
    is_exact: bool = True
    """False if the last row of a file may be cut off, so that an error may be due to the cut."""


class StoredFiles:
    """An object (`s3://bucket/rows.csv`), or those of a folder (`s3://bucket/rows/`) in the order of their keys.

    Their suffix determines their format. Call `close` to delete the copies.
    """

    def __init__(self, field: str, uri: str, folder: Path, account: AccountFields) -> None:
        """List the objects. Copies go into a temporary folder within `folder`. Raises InputError, AccessError."""
        from training.services.sagemaker.clients import Clients
        from training.services.sagemaker.user_data import list_objects, version_of

        self._field, self._folder, self._clients = field, folder, Clients(account.region, account.profile)
        self._location = location_of(field, uri)
        objects = list(list_objects(self._clients, field, self._location))
        self._objects = _data(field, self._location, objects)
        self._version = version_of(self._objects)
        self._copies: Path | None = None
        self._uris: dict[str, str] = {}

    def digest(self, text: TextFormat) -> str:
        """Return text that identifies the rows by the version of the objects and the format of texts."""
        return f"s3 {self._version.digest}{'' if self._reader_name in BINARY else text.identity}"

    @property
    def description(self) -> str:
        """URI with the number and size of the objects."""
        return f"{self._location.uri} ({self._version.size_text})"

    @property
    def uri(self) -> str:
        """Object or folder as requested."""
        return self._location.uri

    def copies(self) -> DataFiles:
        """Return copies of the objects, which are made once. Raises InputError if one has changed since the listing."""
        if self._copies is None:
            folder = self._new_folder()
            for number, each in enumerate(self._objects):
                self._download(each, folder / _file_name(number, each["Key"]))
        return DataFiles(name=self.uri, paths=tuple(map(Path, self._uris)))

    def _new_folder(self) -> Path:
        """Make the folder of the copies. Those that a killed process left are deleted like its unfinished stagings."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._copies = Path(tempfile.mkdtemp(prefix=UNFINISHED_PREFIX, dir=self._folder))
        return self._copies

    def _download(self, stored: Mapping[str, Any], path: Path, most_bytes: int | None = None) -> None:
        from training.services.sagemaker.user_data import download

        location = Location(self._location.bucket, stored["Key"])
        download(self._clients, self._field, location, stored["ETag"], path, most_bytes=most_bytes)
        self._uris[str(path)] = location.uri

    @property
    def size_bytes(self) -> int:
        """Size of the objects together."""
        return self._version.size_bytes

    @property
    def is_packed(self) -> bool:
        """True if the text of the objects is larger than they are."""
        return is_packed(Path(self._objects[0]["Key"])) or self._reader_name in BINARY

    @property
    def _reader_name(self) -> str:
        return reader_name(Path(self._objects[0]["Key"]))

    def can_start(self, text: TextFormat) -> bool:
        """Return whether rows can be read from the start of an object."""
        is_cut_at_lines = "\n".encode(text.encoding) == b"\n"  # not in UTF-16
        return self._reader_name in LINES and is_cut_at_lines

    def start(self) -> Start:
        """Return copies of the first objects, or of the start of the first, of `START_BYTES` together.

        Raises InputError if an object has changed since the listing.
        """
        folder, sizes = self._new_folder(), dict[Path, int]()
        is_exact = not self.is_packed and self._reader_name not in {".csv", ".tsv"}
        for number, each in enumerate(self._objects):
            room = START_BYTES - sum(sizes.values())
            if room <= 0:
                break
            path = folder / _file_name(number, each["Key"])
            sizes[path] = each["Size"]
            self._download(each, path, min(room, each["Size"]))
            if room < each["Size"] and not is_packed(path):
                is_exact = _cut_at_line(path) and is_exact
        of_all = self._version.size_bytes / sum(sizes.values())
        return Start(
            files=DataFiles(name=self.uri, paths=tuple(sizes)),
            scales={path: of_all * size / path.stat().st_size for path, size in sizes.items()},
            is_exact=is_exact,
        )

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


def _file_name(number: int, key: str) -> str:
    """Return the name of a copy. A key may be no name of a file; only its suffixes matter."""
    return f"{number:05}{''.join(PurePosixPath(key).suffixes[-2:])}"


def _cut_at_line(path: Path) -> bool:
    """Remove the incomplete line at the end of a file. Return False if it is the only one, which stays."""
    end = path.read_bytes().rfind(b"\n") + 1
    if end:
        os.truncate(path, end)
    return end > 0


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
