"""Record an endpoint's model and options in its server's folder, so that a later deploy can compare."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from models.endpoints.protocol import EndpointSpec

FIELDS = ("precision", "max_length", "host", "token_file")
DEFAULTS = {"host": "127.0.0.1", "token_file": None}
"""Values of endpoints that an earlier version of trainfare deployed."""


def record_of(spec: EndpointSpec) -> dict[str, Any]:
    """Return the record: the model, the files of its folder and the options.

    For the model of a run, the files are omitted, because a run's model never changes.
    """
    return {
        "identity": spec.identity,
        "files": {} if spec.run_id else _files(spec.model),
        "precision": spec.precision or "auto",
        "max_length": spec.max_length,
        "host": spec.host,
        "token_file": str(spec.token_file) if spec.token_file else None,
        "token_changed": spec.token_file.stat().st_mtime_ns if spec.token_file else None,
    }


def difference(kept: Mapping[str, Any], spec: EndpointSpec) -> str | None:
    """Return a phrase on how the endpoint differs from `spec`; None if they are equal.

    A field that an earlier version of trainfare did not record counts as equal.
    """
    requested = record_of(spec)
    if kept.get("identity", "") != requested["identity"]:
        return f"serves {kept.get('identity') or 'an unknown model'}, not {requested['identity']}"
    before, now = kept.get("files", requested["files"]), requested["files"]
    if changed := sorted(name for name in {**before, **now} if before.get(name) != now.get(name)):
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        verb = "have" if more else "has"
        return f"serves an earlier state of {spec.identity}: {changed[0]}{more} {verb} changed since"
    for name in FIELDS:
        if (was := kept.get(name, DEFAULTS.get(name, requested[name]))) != requested[name]:
            return f"serves {spec.identity} with {name} {_shown(was)}, not {_shown(requested[name])}"
    if kept.get("token_changed") != requested["token_changed"]:
        return f"serves {spec.identity} with an earlier token: {spec.token_file} has changed since"
    return None


def _shown(value: Any) -> str:
    return "unset" if value is None else str(value)


def _files(folder: Path) -> dict[str, list[int]]:
    """Return the size (bytes) and modification time (nanoseconds) of each file in the folder.

    They reveal new weights without reading gigabytes.
    """
    files: dict[str, list[int]] = {}
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # a training may be writing to the folder
            status = path.stat()
            if path.is_file():
                files[path.name] = [status.st_size, status.st_mtime_ns]
    return files
