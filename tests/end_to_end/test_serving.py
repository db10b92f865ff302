"""From training to prediction: train the demo, deploy its run, send a request over HTTP, undeploy it."""

from __future__ import annotations

import json
import urllib.request

import psutil
import pytest

from tests.end_to_end.conftest import CommandLine

SMALL = {
    "experiment": "demo",
    "data.train_rows": 200,
    "data.validation_rows": 60,
    "max_steps": 4,
    "save_model": "true",
}
TEXT = "Winter is coming and it will be dark soon."


@pytest.mark.gate
@pytest.mark.slow
def test_a_trained_model_answers_until_it_is_undeployed(command_line: CommandLine) -> None:
    trained = command_line("train", SMALL)
    assert trained.returncode == 0, trained.stdout + trained.stderr
    (run,) = command_line.runs()

    deployed = command_line.by_mlflow("deploy", {"run": run.info.run_id, "endpoint": "winter"})
    assert deployed.returncode == 0, deployed.stdout + deployed.stderr
    assert "Endpoint: winter (local, InService)" in deployed.stdout
    address = next(line for line in deployed.stdout.splitlines() if line.startswith("Address: ")).split()[1]
    try:
        answer = posted(address, {"inputs": TEXT})
        labels = {"torch", "transformers", "mlflow", "sqlalchemy"}
        assert set(answer[0]) == {"label", "score"}
        assert not answer[0]["label"].startswith("LABEL_"), f"names such as {labels}"

        predicted = command_line.by_mlflow("predict", {"endpoint": "winter", "text": TEXT})
        assert predicted.returncode == 0, predicted.stdout + predicted.stderr
        assert json.loads(predicted.stdout.splitlines()[-1]) == answer

        listed = command_line("endpoints")
        assert all(part in listed.stdout for part in ("winter", run.info.run_id, "InService", address))
    finally:
        undeployed = command_line.by_mlflow("undeploy", {"endpoint": "winter"})
    assert undeployed.returncode == 0, undeployed.stdout + undeployed.stderr
    with pytest.raises(OSError, match="refused"):
        posted(address, {"inputs": TEXT})
    home = str(command_line.folder)
    assert not [
        process for process in psutil.process_iter(["cmdline"]) if home in " ".join(process.info["cmdline"] or [])
    ]


def posted(address: str, body: object) -> list[dict[str, object]]:
    """Return the response to a request over HTTP."""
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return list(json.loads(response.read()))
