"""The endpoint commands on SageMaker, as a user runs them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from experiments.__main__ import main
from tests.conftest import ROOT
from tests.support.aws.account import Account
from tests.support.aws.api import ApiError

DENIED = ApiError("AccessDeniedException", "User: me is not authorized to perform: sagemaker:CreateEndpoint")


def test_an_endpoint_answers_until_it_is_undeployed(
    deploy: list[str], account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*deploy, "--lifetime", "1h"]) == 0
    output = capsys.readouterr().out
    assert "Endpoint: emotion (sagemaker, InService)" in output
    assert "Cost: 36 USD per hour (prices.json, 2026-11-01)" in output
    assert main(["predict", "--endpoint", "emotion", "--text", "Winter is coming."]) == 0
    assert capsys.readouterr().out == '{"inputs": "Winter is coming."}\n'
    assert main(["endpoints"]) == 0
    output = capsys.readouterr().out
    assert "sagemaker, 1 x ml.g4dn.xlarge" in output
    assert "USD so far (prices.json, 2026-11-01)" in output
    assert main(["undeploy", "--all", "true"]) == 0
    assert account.hosting.names() == {}


def test_a_refusal_is_reported_in_one_sentence(
    deploy: list[str], account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    account.api.faults.add("CreateEndpoint", DENIED)
    assert main(deploy) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: Endpoint emotion: access is denied: User: me is not authorized")
    assert error.count("\n") == 1
    assert account.hosting.names() == {}
    assert main(["predict", "--endpoint", "emotion", "--service", "sagemaker", "--text", "x"]) == 1
    assert capsys.readouterr().err.startswith(
        "error: Endpoint emotion does not exist on SageMaker in this account and region us-east-1"
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupted_command_deletes_its_resources(
    deploy: list[str], account: Account, number: signal.Signals
) -> None:
    """A real process is interrupted while SageMaker creates its endpoint, which cannot be deleted before."""
    account.hosting.looks = 1_000_000
    command = [sys.executable, "-m", "experiments", *deploy]
    lines = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        while "Endpoint" not in account.hosting.names():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        assert process.stdout
        for line in process.stdout:
            lines.append(line)
            if "cannot be deleted while SageMaker is changing it" in line:
                # It has ended.
                account.hosting.kinds["Endpoint"]["emotion"].looks = account.hosting.looks = 0
    assert process.returncode != 0, lines
    assert account.hosting.names() == {}, lines
