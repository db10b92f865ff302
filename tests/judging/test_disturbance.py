"""Test the rule by which a measurement counts as disturbed."""

from __future__ import annotations

import math

import pytest

from judging.disturbance import LIMITS, disturbances


def reasons(**metrics: float) -> list[str] | None:
    return disturbances(lambda name: metrics.get(name.removeprefix("machine/"), math.nan))


def test_a_quiet_job_has_no_reason() -> None:
    assert reasons(others_cpu_percent=1.2, steal_percent=0.1, throttled_percent=0.0) == []


def test_a_job_without_counters_is_unknown_and_not_quiet() -> None:
    assert reasons() is None
    assert reasons(others_cpu_percent=math.nan) is None


@pytest.mark.parametrize(("metric", "limit"), [(name, limit) for name, (limit, _) in LIMITS.items()])
def test_each_metric_has_a_limit(metric: str, limit: float) -> None:
    name = metric.removeprefix("machine/")
    assert reasons(**{name: limit}) == []
    [reason] = reasons(**{name: limit + 0.6}) or []
    number = f"{limit + 0.6:.1f} CPUs" if name == "others_cpus" else f"{limit + 0.6:.0f} %"
    assert number in reason


def test_one_busy_cpu_of_many_disturbs_and_is_named_once() -> None:
    # One busy process beside a job on 64 CPUs, and on 2.
    assert reasons(others_cpu_percent=1.6, others_cpus=1.0) == ["other processes used 1.0 CPUs"]
    assert reasons(others_cpu_percent=50.0, others_cpus=1.0) == ["other processes used 50 % of the job's CPUs"]


def test_all_reasons_are_named() -> None:
    assert reasons(others_cpu_percent=48.3, steal_percent=7.0, memory_stalled_percent=0.0) == [
        "other processes used 48 % of the job's CPUs",
        "the hypervisor took 7 % of the job's CPUs",
    ]
