"""Record of what an endpoint serves, kept beside its server, so that a later deploy can compare."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from models.endpoints.protocol import EndpointSpec

FIELDS = ("precision", "max_length")


def record_of(spec: EndpointSpec) -> dict[str, Any]:
    """Return the record: the model, the files of a folder, and the options.

    The files of a run's model are left out: they are the same however often its folder is fetched.
    """
    return {
        "identity": spec.identity,
        "files": {} if spec.run_id else _files(spec.model),
        "precision": spec.precision or "auto",
        "max_length": spec.max_length,
    }


def difference(kept: Mapping[str, Any], spec: EndpointSpec) -> str | None:
    """Return one phrase on how the endpoint differs from `spec`; None if it does not.

    A field that an older version did not record counts as equal.
    """
    requested = record_of(spec)
    if kept.get("identity", "") != requested["identity"]:
        return f"serves {kept.get('identity') or 'an unknown model'}, not {requested['identity']}"
    before, now = kept.get("files", requested["files"]), requested["files"]
    if changed := sorted(name for name in {**before, **now} if before.get(name) != now.get(name)):
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        return f"serves {spec.identity} as it was before {changed[0]}{more} changed"
    for name in FIELDS:
        if (was := kept.get(name, requested[name])) != requested[name]:
            return f"serves {spec.identity} with {name} {_shown(was)}, not {_shown(requested[name])}"
    return None


def _shown(value: Any) -> str:
    return "as the model has it" if value is None else str(value)


def _files(folder: Path) -> dict[str, list[int]]:
    """Return size (bytes) and modification time (nanoseconds) of each file of the folder.

    They distinguish new weights from old ones without reading gigabytes.
    """
    files: dict[str, list[int]] = {}
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # a training may be writing there
            status = path.stat()
            if path.is_file():
                files[path.name] = [status.st_size, status.st_mtime_ns]
    return files
