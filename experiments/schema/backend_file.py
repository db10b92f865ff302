"""Backend configuration: a file that sets where jobs run, for any experiment.

MLflow does not pass its `--backend-config` to a project that its local backend runs. A parameter
names the file instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from experiments.schema.overrides import is_field, unknown_field
from experiments.schema.yaml_document import Document, Path_
from training.contract.errors import InputError

PARAMETER = "backend_config"
FIELDS = ("service", "machine", "aws")


def backend_values(document: Document) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of a backend configuration and their locations, by dotted name. Raises InputError."""
    values, locations = {}, {}
    for name, value, path in _flat(document.tree, ()):
        location = f"{document.name} line {document.lines[path]}"
        if name.split(".")[0] not in FIELDS:
            raise InputError(
                f"{name[:80]} is not a field of a backend configuration ({location}). Its fields are "
                f"{', '.join(FIELDS)}"
            )
        if not is_field(name):
            raise InputError(unknown_field(name, location))
        values[name], locations[name] = value, location
    return values, locations


def _flat(tree: Mapping[str, Any], path: Path_) -> Iterator[tuple[str, Any, Path_]]:
    for key, value in tree.items():
        inner = (*path, key)
        if isinstance(value, Mapping):
            yield from _flat(value, inner)
        else:
            yield ".".join(map(str, inner)), value, inner
