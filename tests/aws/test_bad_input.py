"""What is wrong at AWS before a job runs, or with what it runs, as the person sees it who gave the command."""

from __future__ import annotations

import re
import socket

import pytest

from tests.aws.account import ROLE, Account
from tests.aws.conftest import Terminal

pytestmark = pytest.mark.slow

FOREIGN_IMAGE = "999999999999.dkr.ecr.us-east-1.amazonaws.com/mine:latest"


@pytest.mark.parametrize(
    ("wrong", "code", "words"),
    [
        ({"aws.bucket": "far"}, 2, "Bucket far is in eu-central-1, and the jobs run in us-east-1"),
        ({"aws.bucket": "theirs"}, 1, "Bucket theirs belongs to another account than 123456789012, or may not be read"),
        ({"aws.role": ROLE.replace("trainer", "nobody")}, 2, "Job demo-.* Could not assume role .*/nobody"),
        ({"machine.instance_type": "ml.g5.huge"}, 2, "Job demo-.* Value 'ml.g5.huge' at 'resourceConfig.instanceType'"),
        ({"machine.image": FOREIGN_IMAGE}, 2, "Job demo-.* Cannot find repository: mine in registry ID: 999999999999"),
    ],
    ids=["another region", "another account", "role", "instance type", "image"],
)
def test_one_sentence_and_nothing_is_left_running(
    terminal: Terminal, account: Account, wrong: dict[str, object], code: int, words: str
) -> None:
    account.clients["s3"].create_bucket(Bucket="far", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    account.bucket_of_somebody_else("theirs")
    said = terminal("train", wrong)
    [line] = said.error.splitlines()
    assert (said.code, bool(re.search(words, line))) == (code, True), said
    assert "may run on" not in line
    assert account.jobs.names() == []
    assert [run.info.status for run in terminal.runs() if run.info.status not in {"FAILED"}] == []


def test_a_region_that_is_dead_is_told_soon(
    terminal: Terminal, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{closed.getsockname()[1]}")
    for words in (["train"], ["jobs", "--service", "sagemaker", "list"]):
        said = terminal("train") if words == ["train"] else terminal.say(*words)
        [line] = said.error.splitlines()
        assert (said.code, "AWS: AWS does not answer" in line) == (1, True), said
        assert "check the region and the network" in line
    assert account.jobs.names() == []
