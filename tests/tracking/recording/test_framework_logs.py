"""Output of Lightning and Keras, which are not installed, from scripts that print their bars to a pipe."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tracking.recording.metric_points import metric_points
from tracking.recording.script_log import ScriptLogReader

Points = dict[str, dict[int, float]]


def points_of(script: str) -> Points:
    """Run a script, and return the points of each metric by step."""
    command = [sys.executable, str(ROOT / "tests" / "support" / "scripts" / script)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    lines = done.stdout.decode().split("\n")
    reader = ScriptLogReader({}, None)
    events = [*reader.read(lines, [100.0 + at for at in range(len(lines))]), *reader.result(200.0)]
    points: Points = {}
    for event in (event for event in events if event.kind == "metric"):
        for point in metric_points(event):
            points.setdefault(point.key, {})[point.step] = point.value
    return points


@pytest.mark.parametrize("script", ["lightning_lines.py", "keras_lines.py"])
def test_each_loss_has_its_step(script: str) -> None:
    losses = points_of(script)["loss"]
    # Two epochs of 50 batches, whose loss is 1 / step.
    assert losses == pytest.approx({step: 1 / step for step in range(1, 101)}, abs=5.1e-5)


def test_evaluations_of_lightning_are_read() -> None:
    assert points_of("lightning_lines.py")["eval_acc"] == {50: 0.5, 100: 0.75}


def test_evaluations_of_keras_are_read() -> None:
    points = points_of("keras_lines.py")
    # `evaluate` runs after the training, and its last line has its result.
    assert points["eval_accuracy"] == {50: 0.5, 100: 0.125}
    assert points["eval_loss"] == {50: 0.5, 100: 0.25}
