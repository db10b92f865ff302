"""A managed tracking server of SageMaker, named by its ARN: calls are signed and artifacts go to S3."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.conftest import ROOT, TrackingServer
from tests.end_to_end.conftest import CommandLine
from tests.support.aws.account import KEYS, Account
from tests.support.tracking.managed import APP, ARN, ManagedMlflow, server_with_s3_artifacts
from tests.support.tracking.managed_script import EXPERIMENT, SCRIPT


@pytest.fixture
def server(_template_database: Path, account: Account, tmp_path: Path) -> Iterator[TrackingServer]:
    """A tracking server with artifacts in S3."""
    with server_with_s3_artifacts(tmp_path / "server", _template_database, account.clients["s3"]) as running:
        yield running


def managed(uri: str, arn: str = ARN) -> ManagedMlflow:
    return ManagedMlflow(uri, KEYS["aws_access_key_id"], KEYS["aws_secret_access_key"], arn)


def documented() -> set[str]:
    """Return the calls that docs/aws.md names."""
    text = (ROOT / "docs" / "aws.md").read_text()
    listed = re.search(r"```text mlflow-calls\n(.*?)```", text, re.DOTALL)
    assert listed
    return {line.strip() for line in listed[1].splitlines() if line.strip()}


@pytest.mark.slow
@pytest.mark.parametrize("arn", [ARN, APP], ids=["tracking server", "app"])
def test_a_comparison_is_tracked_on_a_server_named_by_its_arn(
    server: TrackingServer, account: Account, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, arn: str
) -> None:
    (command_line.folder / "code").mkdir()
    (command_line.folder / "code" / "train.py").write_text(SCRIPT)
    own = command_line.folder / "own.yaml"
    own.write_text(EXPERIMENT)
    with managed(server.uri, arn) as proxy:
        monkeypatch.setenv("SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT", proxy.url)
        done = replace(command_line, uri=arn)("compare", {"experiment": own})
    assert done.returncode == 0, done.stdout + done.stderr
    assert (proxy.refused, done.stderr) == ([], "")
    assert f"MLflow: {arn}" in done.stdout
    # Looked at past the proxy: what stands in the server.
    there = replace(command_line, uri=server.uri)
    runs = there.runs()
    assert [run.info.status for run in runs] == ["FINISHED"] * 4
    client = MlflowClient(server.uri)
    for run in runs:
        assert [point.step for point in client.get_metric_history(run.info.run_id, "loss")] == [1, 2, 3]
    [group] = there.runs("group")
    keys = {entry["Key"] for entry in account.clients["s3"].list_objects_v2(Bucket="artifacts")["Contents"]}
    assert any(key.endswith(f"{group.info.run_id}/artifacts/report/report.html") for key in keys)
    assert proxy.calls == documented()
