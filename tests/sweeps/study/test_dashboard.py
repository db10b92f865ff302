"""optuna-dashboard opens on a sweep's storage."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from sweeps.workers.trial_queue import Limits
from tests.support.fork_server.interpreter import INTERPRETER
from tests.support.ports import free_port
from tests.support.sweeps.bench import Bench, short


@pytest.mark.slow
def test_the_dashboard_shows_the_sweep(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    part = bench.part()
    bench.run(short, part, limits=Limits(trials=2))
    port = free_port()
    command = [str(Path(INTERPRETER).with_name("optuna-dashboard")), bench.url, "--port", str(port)]
    dashboard = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        studies = json.loads(_get(f"http://127.0.0.1:{port}/api/studies"))["study_summaries"]
        assert [study["study_name"] for study in studies] == ["s/none"]
        detail = json.loads(_get(f"http://127.0.0.1:{port}/api/studies/{studies[0]['study_id']}"))
        assert [trial["state"] for trial in detail["trials"]] == ["Complete", "Complete"]
    finally:
        dashboard.kill()
        dashboard.wait()


def _get(address: str) -> bytes:
    deadline = time.monotonic() + 480
    while True:
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:
                assert answer.status == 200
                content: bytes = answer.read()
                return content
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)
