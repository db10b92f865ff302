"""Groups whose jobs would all fail stop early, and say why."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest

from tests.end_to_end.conftest import CommandLine, text
from tracking.queries.job_tables import tags_of

SCRIPT = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int)
parser.add_argument("--seed", type=int)
args = parser.parse_args()
if args.batch_size == 4:
    import not_installed_anywhere
if args.batch_size == 16:
    raise RuntimeError(f"cannot open /tmp/run-{args.seed}/data.bin")
print("samples=64")
print("eval_accuracy=0.9")
"""
EXPERIMENT = """\
script:
  source: code
  entry_point: fails.py
  hyperparameters: {batch-size: $batch_size, seed: $seed}
  metrics: {samples: 'samples=(\\d+)', eval_accuracy: 'eval_accuracy=(.*)'}
machine: {cores: 1}
compare:
  arms: [{batch_size: 4}, {batch_size: 16}]
"""
MISSING = "ModuleNotFoundError: No module named 'not_installed_anywhere'"


@pytest.fixture
def fails(tmp_path: Path) -> Path:
    """The experiment file of a script that fails with some batch sizes."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "fails.py").write_text(SCRIPT)
    (tmp_path / "fails.yaml").write_text(EXPERIMENT)
    return tmp_path / "fails.yaml"


def arms(command_line: CommandLine) -> list[str]:
    return sorted(run.data.tags["arm"] for run in command_line.runs())


def test_a_group_ends_once_every_arm_fails_at_once(command_line: CommandLine, fails: Path) -> None:
    """The first command leaves after the first job. What it died of is known to the second one."""
    left = command_line("compare", {"experiment": fails, "wait": "false"})
    assert left.returncode == 0, left.stdout + left.stderr
    [first] = command_line.runs()
    done = command_line("attach", {"group": first.data.tags["platform.group"]})
    assert done.returncode == 1, done.stdout + done.stderr
    # One missing module is enough; the other arm died twice of the same exception, but for its paths.
    assert arms(command_line) == ["batch 16", "batch 16", "batch 4"]
    tags = [tags_of(run) for run in command_line.runs()]
    assert tags[0]["platform.exception"] == MISSING
    assert {each["platform.exception_moment"] for each in tags} == {"import", "start"}
    assert f"batch 4: no further repeats are started: they would fail as well ({MISSING})" in text(done)
    assert f"No further repeats of “batch 4” were started: they would have failed as well ({MISSING})." in text(done)
    [group] = command_line.runs("group")
    assert group.info.status == "FAILED"
    assert f"“batch 4” were started: they would have failed as well ({MISSING})" in _report(command_line)


def _report(command_line: CommandLine) -> str:
    [group] = command_line.runs("group")
    folder = command_line.folder / "home" / "reports" / group.data.tags["platform.group"]
    assert json.loads((folder / "summary.json").read_text())["headline"].startswith("No verdict")
    return html.unescape((folder / "report.html").read_text())
