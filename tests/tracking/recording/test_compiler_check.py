"""Check of the log against the compiler setting: did SageMaker Training Compiler run?"""

from __future__ import annotations

from typing import Any

import pytest

from reports.comparison.comparison import compare
from reports.comparison.verdict import judge
from tracking.queries import job_tables
from tracking.recording.recorder import compiler_warning, compiler_was_active

SHOWN = ["2022-10-05 INFO Configuring SM Training Compiler...", "loss 0.5"]


@pytest.mark.parametrize(
    ("compiler", "lines", "active", "message"),
    [
        ("trcomp", SHOWN, True, ""),
        ("trcomp", ["Found configuration for Training Compiler"], True, ""),
        ("trcomp", ["loss 0.5"], False, "does not show that SageMaker Training Compiler ran"),
        ("trcomp", [], False, "does not show that SageMaker Training Compiler ran"),
        ("trcomp-off", ["loss 0.5"], False, ""),
        ("trcomp-off", SHOWN, True, "ran, although it was turned off"),
        ("none", SHOWN, None, ""),
        ("inductor", ["loss 0.5"], None, ""),
    ],
)
def test_the_log_is_checked_against_the_setting(
    compiler: str, lines: list[str], active: bool | None, message: str
) -> None:
    assert compiler_was_active(compiler, lines) is active
    assert message in (compiler_warning(compiler, active) or "")
    assert (compiler_warning(compiler, active) is None) == (not message)


def test_an_uncompiled_control_that_was_compiled_is_not_comparable(tracked: Any) -> None:
    for repeat in range(2):
        tags = {"platform.compiler": "trcomp-off", "platform.compiler_active": "true"}
        tracked.trained("trcomp-off", repeat, 100.5 + repeat, baseline=True, tags=tags)
        tracked.trained("trcomp", repeat, 50.5 + repeat, tags={**tags, "platform.compiler": "trcomp"})
    comparison = compare(job_tables.jobs(tracked.client, tracked.group), tracked.group)
    assert comparison.best is None
    verdict = judge(comparison.arms[1], comparison.arms[0], comparison.measure)
    assert verdict.outcome == "not comparable"
    assert verdict.reason.startswith("“trcomp-off” does not match its setting: its log shows")
