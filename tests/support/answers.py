"""The answers of the verbs with `--format json`, by the schema that the documentation shows."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from tests.conftest import ROOT

SCHEMA = json.loads((ROOT / "docs" / "output.schema.json").read_text("utf-8"))


def checked(name: str, output: str) -> dict[str, Any]:
    """Return the answer that a verb printed. Fails if it is not what the schema defines as `name`."""
    answer = json.loads(output)
    jsonschema.validate(answer, {"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})
    return dict(answer)
