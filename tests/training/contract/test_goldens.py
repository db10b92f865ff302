"""Compare our request for each published workload with the one that SageMaker's SDK v2 sends.

Our request comes from `experiments/published`. `tests/support/requests/differences.py` lists all intended differences
with their reasons. An unlisted difference fails, and so does a listed one that does not exist.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.requests.building import Built
from tests.support.requests.comparison import fields_of, unexplained
from tests.support.requests.differences import differences
from tests.support.requests.workloads import PUBLISHED, WORKLOADS


def test_every_golden_request_is_compared(shared: Path) -> None:
    assert sorted(WORKLOADS) == sorted(path.stem for path in (shared / "golden").glob("*.json"))
    assert {each.experiment for each in WORKLOADS.values()} == {path.stem for path in PUBLISHED.glob("*.yaml")}


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_our_request_equals_the_sdks_except_for_the_listed_differences(shared: Path, built: Built, name: str) -> None:
    workload, golden = WORKLOADS[name], fields_of(json.loads((shared / "golden" / f"{name}.json").read_text()))
    for key in workload.channels.values():
        built.put(f"{key}/rows.jsonl")
    request = fields_of(built(workload.path, workload.arm, **workload.overrides))
    assert unexplained(golden, request, differences(name, golden)) == []
