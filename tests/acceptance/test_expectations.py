"""Rules of expectations, and the values that are read from a description and a log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from acceptance.expectations import RULES, Expectation, differences, expectations, holds
from acceptance.observations import description_values, log_values, newest_checkpoint
from acceptance.steps import STEPS
from acceptance.ways import WAYS

START = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)


def transition(status: str, start: int, end: int) -> dict[str, Any]:
    return {
        "Status": status,
        "StartTime": START + timedelta(seconds=start),
        "EndTime": START + timedelta(seconds=end),
    }


@pytest.mark.parametrize(
    ("rule", "expected", "good", "bad"),
    [
        ("equals", 0, 0, 1),
        ("matches", "Starting, (Pending, )?Training", "Starting, Pending, Training", "Starting, Training, Failed"),
        ("includes", ["a", "b+"], ["bb", "a", "c"], ["a", "c"]),
        ("only", ["a", "b+"], ["a", "bb"], ["a", "c"]),
        ("at_least", 1, 1, 0),
        ("at_most", 2, 2.0, 2.1),
    ],
)
def test_each_rule(rule: str, expected: Any, good: Any, bad: Any) -> None:
    expectation = Expectation(value="x", rule=rule, expected=expected)
    assert holds(expectation, good)
    assert not holds(expectation, bad)
    assert not holds(expectation, None)


def test_every_step_has_a_way_and_expectations() -> None:
    assert set(STEPS) == set(WAYS) == set(expectations())
    assert {each.rule for step in expectations().values() for each in step} == set(RULES)


def test_a_missing_value_is_a_difference() -> None:
    [code, *_] = differences("managed-mlflow", {"run.status": "FINISHED", "run.metrics": ["loss", "eval_loss"]})
    assert (code.value, code.expected, code.observed) == ("train.exit_code", "equals 0", "missing")


def test_billed_seconds_are_compared_with_the_times() -> None:
    description = {
        "TrainingJobStatus": "Completed",
        "ResourceConfig": {"InstanceCount": 1},
        "TrainingStartTime": START,
        "TrainingEndTime": START + timedelta(seconds=70.4),
        "TrainingTimeInSeconds": 70,
        "BillableTimeInSeconds": 66,
        "SecondaryStatusTransitions": [transition("Starting", 0, 20), transition("Training", 20, 70)],
    }
    values = description_values(description)
    assert values["billed_difference_seconds"] == pytest.approx(4.4)
    assert values["billed_share"] == pytest.approx(66 / 70)
    assert values["transitions_in_order"] is True
    assert values["secondary_statuses"] == "Starting, Training"
    description["SecondaryStatusTransitions"][1]["StartTime"] = START  # type: ignore[index]
    assert description_values(description)["transitions_in_order"] is False


def test_a_job_without_an_end_has_no_billed_values() -> None:
    values = description_values({"TrainingJobStatus": "Failed", "ResourceConfig": {"InstanceCount": 1}})
    assert "billed_difference_seconds" not in values


def test_lines_before_the_program_are_those_of_the_image() -> None:
    start = 'trainfare-event {"event": "start", "seq": 0, "time": 1.0, "resumed_from_step": 5}'
    metric = 'trainfare-event {"event": "metric", "seq": 1, "time": 2.0, "step": 8, "values": {"loss": 1.0}}'
    values = log_values(["bash: no job control in this shell", start, metric, "[algo-2] hello"])
    assert values["first_lines"] == ["bash: no job control in this shell"]
    assert (values["resumed_from_step"], values["last_step"]) == (5, 8)
    assert values["machines"] == ["algo-2"]


def test_the_newest_checkpoint_is_known_by_its_step() -> None:
    assert newest_checkpoint(["checkpoint-9/a", "checkpoint-10/a", ".compile-cache/x", "checkpoint-11.tmp"]) == 10
    assert newest_checkpoint([]) == 0


def test_a_group_within_a_group_is_of_the_same_values() -> None:
    values = [each.value for each in expectations()["own-task"]]
    assert {"job.fields", "job.status", "job.billed_difference_seconds", "run.status"} <= set(values)
    assert not [value for value in values if ".." in value]
