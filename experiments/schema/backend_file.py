"""Backend configuration: a file that sets where jobs run, for any experiment.

MLflow's local backend does not pass `--backend-config` to the project. The parameter `backend_config` names the file
instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from experiments.schema.overrides import is_field, unknown_field
from experiments.schema.yaml_document import Document, KeyPath
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
                f"{name[:80]} is not a field of a backend configuration ({location}). It may set only "
                f"{', '.join(FIELDS)}"
            )
        if not is_field(name):
            raise InputError(unknown_field(name, location))
        values[name], locations[name] = value, location
    return values, locations


def _flat(tree: Mapping[str, Any], path: KeyPath) -> Iterator[tuple[str, Any, KeyPath]]:
    for key, value in tree.items():
        inner = (*path, key)
        if isinstance(value, Mapping):
            yield from _flat(value, inner)
        else:
            yield ".".join(map(str, inner)), value, inner
