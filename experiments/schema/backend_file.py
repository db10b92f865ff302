"""A backend configuration: where jobs run, in a file of its own, laid over any experiment.

MLflow's own `--backend-config` does not reach a project that its local backend runs: the file is named by a parameter.
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
    """Return the values of a backend configuration by dotted name, and the place of each. Raises InputError."""
    values, places = {}, {}
    for name, value, path in _flat(document.tree, ()):
        place = f"{document.name} line {document.lines[path]}"
        if name.split(".")[0] not in FIELDS:
            raise InputError(
                f"{name[:80]} is no field of a backend configuration ({place}): it tells where jobs run, by the fields "
                f"{', '.join(FIELDS)}"
            )
        if not is_field(name):
            raise InputError(unknown_field(name, place))
        values[name], places[name] = value, place
    return values, places


def _flat(tree: Mapping[str, Any], path: Path_) -> Iterator[tuple[str, Any, Path_]]:
    for key, value in tree.items():
        here = (*path, key)
        if isinstance(value, Mapping):
            yield from _flat(value, here)
        else:
            yield ".".join(map(str, here)), value, here
