"""SHA-256 of texts, files and settings: the names under which equal content is kept once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

KEY_CHARACTERS = 32
"""Hexadecimal digits of a key."""


def digest(content: str | bytes, characters: int = 64) -> str:
    """Return the first hexadecimal digits of the digest of bytes, or of a text in UTF-8."""
    content = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.sha256(content).hexdigest()[:characters]


def file_digest(path: Path) -> str:
    """Return the digest of a file's content. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def key_of(value: object) -> str:
    """Return the key of settings that JSON can represent. The order of a mapping's names does not matter."""
    return digest(json.dumps(value, sort_keys=True), KEY_CHARACTERS)


def listing_of(files: Mapping[str, Path]) -> str:
    """Return a line with the name and the digest of each file. Raises OSError."""
    return "\n".join(f"{name} {file_digest(path)}" for name, path in files.items())
