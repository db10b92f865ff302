"""A service is named in its own room. Other files ask for its traits."""

from __future__ import annotations

import re

from tests.layout.imports import ROOT, sources
from training.services.registry import SERVICES

ROOMS = tuple(f"{folder}/{name}" for folder in ("training/services", "models/endpoints") for name in SERVICES)
KNOWN = {"training/contract/job_spec.py"}
"""Files outside the rooms that name a service in quotes. This set may only shrink: the form of stored plans."""


def test_no_other_file_names_a_service() -> None:
    quoted = re.compile(rf"[\"']({'|'.join(SERVICES)})[\"']")
    others = [path for path in sources() if not path.startswith(ROOMS)]
    assert {path for path in others if quoted.search((ROOT / path).read_text("utf-8"))} == KNOWN
