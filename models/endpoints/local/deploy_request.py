"""What an endpoint was asked to serve, kept beside its server: by it a later deploy tells whether it is the same."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from models.endpoints.protocol import EndpointSpec

FIELDS = ("precision", "max_length")


def asked(spec: EndpointSpec) -> dict[str, Any]:
    """Return what is kept: the model, the files of a folder, and how it is to answer.

    The files of a run's model are not told: the run is what it is, however often its folder is fetched anew.
    """
    return {
        "identity": spec.identity,
        "files": {} if spec.run_id else _files(spec.model),
        "precision": spec.precision or "auto",
        "max_length": spec.max_length,
    }


def difference(kept: Mapping[str, Any], spec: EndpointSpec) -> str | None:
    """Return in words what is served that is not what `spec` asks for; None where it is the same.

    What an older version did not keep counts as the same.
    """
    wanted = asked(spec)
    if kept.get("identity", "") != wanted["identity"]:
        return f"serves {kept.get('identity') or 'an unknown model'}, not {wanted['identity']}"
    before, now = kept.get("files", wanted["files"]), wanted["files"]
    if changed := sorted(name for name in {**before, **now} if before.get(name) != now.get(name)):
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        return f"serves {spec.identity} as it was before {changed[0]}{more} changed"
    for name in FIELDS:
        if (was := kept.get(name, wanted[name])) != wanted[name]:
            return f"serves {spec.identity} with {name} {_shown(was)}, not {_shown(wanted[name])}"
    return None


def _shown(value: Any) -> str:
    return "as the model has it" if value is None else str(value)


def _files(folder: Path) -> dict[str, list[int]]:
    """Return bytes and time of change (nanoseconds) of each file right in the folder: enough to tell new weights from
    old ones, without reading gigabytes."""
    found: dict[str, list[int]] = {}
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # a training may be writing there
            told = path.stat()
            if path.is_file():
                found[path.name] = [told.st_size, told.st_mtime_ns]
    return found
