"""Models of real trainings in MLflow: one for each completed job, even if the launcher was killed."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import LoggedModelStatus

from tests.conftest import TrackingServer
from tests.end_to_end.conftest import CommandLine, text
from tests.support.job.tiny import TINY
from tests.support.tracking.forwarding import Forwarding

pytestmark = pytest.mark.slow
SMALL = {**TINY, "save_model": "true", "machine.cores": 1}


@pytest.mark.gate
def test_the_repeated_command_of_a_killed_launcher_logs_missing_models(
    tracking_server: TrackingServer, tmp_path: Path, reviews: dict[str, object]
) -> None:
    """The server does not answer while models are logged. One launcher is interrupted and the other is killed."""
    fields = {**reviews, **SMALL, "compare.arms": "[{batch_size: 8}, {batch_size: 16}]", "compare.repeats": 1}
    outputs = {}
    for number in (signal.SIGINT, signal.SIGKILL):
        with Forwarding(tracking_server.uri, "logged-models", 503, b"{}") as proxy:
            launcher = CommandLine(tmp_path, proxy.url).start("compare", fields)
            deadline = time.monotonic() + 480
            while not any("logged-models" in path for path in proxy.paths):
                assert launcher.poll() is None, launcher.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            launcher.send_signal(number)
            outputs[number], _ = launcher.communicate()
    output = outputs[signal.SIGINT]
    assert "Report: " in output
    assert "Traceback" not in output
    assert re.fullmatch(
        r"interrupted\. All jobs have ended\. The same command logs the remaining models, "
        r"and so does `trainfare attach --group \S+`\.",
        output.splitlines()[-1],
    )
    with Forwarding(tracking_server.uri) as proxy:
        done = CommandLine(tmp_path, proxy.url)("compare", fields)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Resuming" in text(done)
    assert "2 models logged in MLflow (" in text(done)
    runs = CommandLine(tmp_path, tracking_server.uri).runs()
    client = MlflowClient(tracking_server.uri)
    models = client.search_logged_models([runs[0].info.experiment_id])
    assert {(each.source_run_id, each.status) for each in models} == {
        (run.info.run_id, LoggedModelStatus.READY) for run in runs
    }
    assert len(runs) == len(models) == 2
    assert {run.data.tags["platform.model_id"] for run in runs} == {each.model_id for each in models}
