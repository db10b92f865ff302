"""An event that is too long for one log line arrives complete through CloudWatch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.training.services.sagemaker.conftest import Terminal

CLASSES = 90


@pytest.mark.slow
def test_an_event_of_half_a_megabyte_arrives_complete(terminal: Terminal, tmp_path: Path) -> None:
    rows = [json.dumps({"text": f"of kind {n}", "label": f"kind {n} of " + 800 * "é"}) for n in range(CLASSES)]
    (tmp_path / "classes.jsonl").write_text("\n".join(rows) + "\n")
    fields = dict.fromkeys(("data.train", "data.validation"), tmp_path / "classes.jsonl")
    output = terminal("train", {**fields, "batch_size": 30})
    assert output.code == 0, output
    [run] = terminal.runs()

    def artifact(path: str) -> str:
        return Path(terminal.client.download_artifacts(run.info.run_id, path)).read_text()

    *_, last = artifact("events.jsonl").splitlines()
    assert len(last.encode()) > 262_144
    assert json.loads(last)["event"] == "result"
    table = json.loads(artifact("tables/confusion_matrix.json"))
    counts = table["columns"].index("count")
    assert sum(row[counts] for row in table["data"]) == CLASSES
    assert max(len(line.encode()) for line in artifact("log.txt").splitlines()) < 2**14
