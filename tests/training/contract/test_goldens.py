"""Compare our request for each reference workload with the one that SageMaker's SDK v2 sends.

Our request comes from an experiment file with overrides. `tests/support/requests/differences.py` lists all intended
differences with their reasons. An unlisted difference fails, and so does a listed one that does not exist.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.requests.building import Built
from tests.support.requests.comparison import fields_of, unexplained
from tests.support.requests.differences import DIFFERENCES
from tests.support.requests.workloads import WORKLOADS


def golden_fields(shared: Path, name: str) -> dict[str, Any]:
    return fields_of(json.loads((shared / "golden" / f"{name}.json").read_text()))


def test_every_golden_request_is_compared(shared: Path) -> None:
    assert sorted(WORKLOADS) == sorted(path.stem for path in (shared / "golden").glob("*.json"))
    assert sorted(DIFFERENCES) == sorted(WORKLOADS)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_our_request_equals_the_sdks_except_for_the_listed_differences(shared: Path, built: Built, name: str) -> None:
    workload, golden = WORKLOADS[name], golden_fields(shared, name)
    request = built(workload.experiment, **workload.overrides)
    assert unexplained(golden, fields_of(request), DIFFERENCES[name](golden)) == []
    # The guide lists the images of each workload.
    images = (request["AlgorithmSpecification"]["TrainingImage"], golden["AlgorithmSpecification.TrainingImage"])
    row = " | ".join(f"`{each.partition('/')[2]}`" for each in images)
    assert f"| {name} | {row} |" in (Path(__file__).parents[3] / "docs" / "aws.md").read_text()
