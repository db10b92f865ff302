"""Errors of AWS before a job runs, and errors of a script, as the command line reports them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.aws.account import ROLE, Account
from tests.training.services.sagemaker.conftest import Terminal

pytestmark = pytest.mark.slow

FOREIGN_IMAGE = "999999999999.dkr.ecr.us-east-1.amazonaws.com/mine:latest"


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"aws.bucket": "far"}, 2, "Bucket far is in eu-central-1, but the jobs run in us-east-1"),
        ({"aws.role": ROLE.replace("trainer", "nobody")}, 2, "Job demo-.* Could not assume role .*/nobody"),
        ({"machine.image": FOREIGN_IMAGE}, 2, "Job demo-.* Cannot find repository: mine in registry ID: 999999999999"),
    ],
    ids=["another region", "role", "image"],
)
def test_a_bad_setting_gives_one_line_and_leaves_nothing_running(
    terminal: Terminal, account: Account, fields: dict[str, object], code: int, message: str
) -> None:
    account.clients["s3"].create_bucket(Bucket="far", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    output = terminal("train", fields)
    [line] = output.error.splitlines()
    assert (output.code, bool(re.search(message, line))) == (code, True), output
    assert "may still be running" not in line
    assert account.jobs.names() == []
    assert [run.info.status for run in terminal.runs() if run.info.status not in {"FAILED"}] == []


def test_a_script_that_fails_shows_its_traceback(
    terminal: Terminal, account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "train.py").write_text(
        "def third(values):\n    return values[2]\n\nprint('so far')\nthird([1, 2])\n"
    )
    (tmp_path / "mine.yaml").write_text("script: {source: scripts, entry_point: train.py}\n")
    # The SDK's configuration provides the role.
    config = f"SchemaVersion: '1.0'\nSageMaker: {{TrainingJob: {{RoleArn: '{ROLE}'}}}}\n"
    (tmp_path / "config.yaml").write_text(config)
    monkeypatch.setenv("SAGEMAKER_USER_CONFIG_OVERRIDE", str(tmp_path / "config.yaml"))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")  # The simulated account has no price list.
    options = ("--service", "sagemaker", "--machine.instance_type", "ml.g5.xlarge")
    output = terminal.run("train", "--experiment", str(tmp_path / "mine.yaml"), *options)
    assert (output.code, output.error) == (1, "")
    [name] = account.jobs.names()
    assert "failed: IndexError: list index out of range" in output.out
    # SageMaker's toolkit prints the pieces that Python writes as lines, which the report puts together.
    assert 'train.py", line 2, in third\n        return values[2]\n' in output.out
    error = "    IndexError: list index out of range\n"
    assert output.out.index(error) < output.out.index(f"job {name}, log: https://us-east-1.console")
    [run] = terminal.runs()
    assert (run.info.status, run.data.tags["platform.failure_class"]) == ("FAILED", "Error")
    assert "IndexError: list index out of range" in run.data.tags["mlflow.note.content"]
