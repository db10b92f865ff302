"""Test that a job on SageMaker leaves no secret of the launcher's environment behind."""

from __future__ import annotations

import base64
import gzip
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, TrackingServer
from tests.end_to_end.conftest import CommandLine
from tests.support.aws.account import Account

pytestmark = pytest.mark.slow

PASSWORD = "pass-5c1e9"
SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIA5C1E9ACCESSKEY",
    "AWS_SECRET_ACCESS_KEY": "secret-5c1e9-key",
    "AWS_SESSION_TOKEN": "session-5c1e9-token",
    "HF_TOKEN": "hf_5c1e9token",
    "MLFLOW_TRACKING_TOKEN": "mlflow-5c1e9-token",
}
HIDDEN = [*SECRETS.values(), PASSWORD, base64.b64encode(f"alice:{PASSWORD}".encode()).decode()]
ON_SAGEMAKER = {"service": "sagemaker", "machine.instance_type": "ml.g5.xlarge", "aws.role": "trainer"}


@pytest.fixture
def confided(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets in the environment of the command line."""
    account.make_role()
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


def test_no_output_of_a_job_contains_a_secret(
    confided: None,
    reviews: dict[str, object],
    account: Account,
    tracking_server: TrackingServer,
    tmp_path: Path,
) -> None:
    launcher = CommandLine(tmp_path, tracking_server.uri.replace("//", f"//alice:{PASSWORD}@"))
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": {"ml.g5.xlarge": 1.0}}))
    reviews |= {"save_strategy": "epoch", "aws.tags": "{team: nlp}", "aws.prices": prices}
    # One that trains, and one whose end is a traceback.
    arms = {"compare.arms": "[{attention: auto}, {attention: flash_attention_2}]", "compare.baseline": ""}
    both = {"compare.repeats": 1, "compare.parallel": 2}
    compared = launcher("compare", {**reviews, **ON_SAGEMAKER, **arms, **both})
    assert compared.returncode == 1, compared.stdout + compared.stderr
    assert sorted(run.info.status for run in launcher.runs()) == ["FAILED", "FINISHED"]
    listed = verb(launcher, "jobs", "--service", "sagemaker", "list")
    log = verb(launcher, "jobs", "--service", "sagemaker", "log", account.jobs.names()[0])
    output = [done.stdout + done.stderr for done in (compared, listed, log)]
    assert "MLflow: http://127.0.0.1" in output[0]
    left = [*enumerate(output), *requests(account), *in_s3(account), *in_cloudwatch(account), *files(launcher.folder)]
    kinds = {str(place).partition(":")[0] for place, _ in left}
    assert {"request", "s3", "log", "file"} <= kinds
    assert [(place, secret) for place, text in left for secret in HIDDEN if secret in text] == []
    # The search finds what is there.
    assert any("wunderbar" in text for place, text in left if str(place).startswith("file:"))
    assert any("sagemaker_program" in text for place, text in left if str(place).startswith("file:"))


def verb(launcher: CommandLine, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "experiments", *words]
    return subprocess.run(command, cwd=ROOT, env=launcher.environment, capture_output=True, text=True, timeout=240)


def requests(account: Account) -> Iterator[tuple[str, str]]:
    for name in account.jobs.names():
        yield f"request:{name}", json.dumps(account.jobs.request(name), default=str)


def in_s3(account: Account) -> Iterator[tuple[str, str]]:
    s3 = account.clients["s3"]
    for bucket in s3.list_buckets()["Buckets"]:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket["Name"]):
            for entry in page.get("Contents", []):
                body = s3.get_object(Bucket=bucket["Name"], Key=entry["Key"])["Body"].read()
                yield f"s3:{entry['Key']}", text_of(entry["Key"], body)


def in_cloudwatch(account: Account) -> Iterator[tuple[str, str]]:
    logs = account.clients["logs"]
    for group in logs.describe_log_groups()["logGroups"]:
        for event in logs.filter_log_events(logGroupName=group["logGroupName"])["events"]:
            yield f"log:{event['logStreamName']}", event["message"]


def files(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield every file: the tracking server's database, log and artifacts, the home folder, the containers."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield f"file:{path.relative_to(folder)}", text_of(path.name, path.read_bytes())


def text_of(name: str, content: bytes) -> str:
    if name.endswith(".tar.gz"):
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
            inside = [tar.extractfile(member) for member in tar.getmembers()]
            content = b"\n".join(file.read() for file in inside if file)
    elif name.endswith(".gz"):
        content = gzip.decompress(content)
    return content.decode("latin-1")
