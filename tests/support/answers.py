"""The answers of the verbs with `--format json`, by the schema that the documentation shows."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from reports.formats.text import summary
from reports.model.report import Report
from tests.conftest import ROOT

SCHEMA = json.loads((ROOT / "docs" / "output.schema.json").read_text("utf-8"))


def checked(name: str, output: str) -> dict[str, Any]:
    """Return the answer that a verb printed. Fails if it is not what the schema defines as `name`."""
    answer = json.loads(output)
    jsonschema.validate(answer, {"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})
    return dict(answer)


def checked_report(name: str, report: Report) -> dict[str, Any]:
    """Return the answer of a verb that ends with this report, but for the addresses of the page and the runs."""
    return checked(name, json.dumps({**summary(report), "report": "report.html", "mlflow": "http://"}))
