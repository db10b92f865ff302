"""`compare` with real trainings under both compilers, killed and resumed."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.end_to_end.conftest import CommandLine
from tests.support.job.tiny import TINY


@pytest.mark.gate
@pytest.mark.slow
def test_a_killed_comparison_of_two_compilers_resumes(command_line: CommandLine, reviews: dict[str, object]) -> None:
    """The launcher is killed while the second arm compiles. The same command completes the comparison."""
    fields = {**reviews, **TINY, "compare.repeats": 2, "save_model": "false"}
    launcher = command_line.start("compare", fields)
    assert launcher.stdout
    for line in launcher.stdout:
        if "inductor, repeat 1: started" in line:
            break
    launcher.send_signal(signal.SIGKILL)
    launcher.communicate()
    done = command_line("compare", fields)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Resuming" in done.stdout
    [group] = command_line.runs("group")
    assert group.info.status == "FINISHED"
    runs = command_line.runs()
    assert [run.data.tags["platform.arm"] for run in runs] == ["none", "inductor", "inductor", "none"]
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert [run.data.tags["platform.cache_state"] for run in runs] == ["off", "cold", "warm", "off"]
    compiled = [run.data.metrics for run in runs if run.data.tags["platform.arm"] == "inductor"]
    assert all(metrics["compile/recompiles"] == 0 for metrics in compiled)
    assert all(metrics["time/compile_seconds"] > 0 for metrics in compiled)
    assert all(run.data.metrics["samples"] == 64 for run in runs)
    summary = json.loads((_report(command_line, group.data.tags["platform.group"]) / "summary.json").read_text())
    assert {arm["label"] for arm in summary["arms"]} == {"none", "inductor"}


def _report(command_line: CommandLine, group_id: str) -> Path:
    folder = command_line.folder / "home" / "reports" / group_id
    assert (folder / "report.html").stat().st_size > 10_000
    assert (folder / "plots" / "throughput.png").stat().st_size > 1_000
    return folder
