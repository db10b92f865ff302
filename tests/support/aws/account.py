"""A simulated AWS account: SageMaker with jobs that really run, and moto's S3, IAM, STS and CloudWatch Logs."""

from __future__ import annotations

import json
import logging
import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.support.aws.api import Api
from tests.support.aws.hosting import Hosting
from tests.support.aws.logs import Logs
from tests.support.aws.moto import MotoServer
from tests.support.aws.rights import action_of, documented
from tests.support.aws.runtime import Runtime
from tests.support.aws.training import Jobs

ACCOUNT = "123456789012"
"""Account number of moto."""
REGION = "us-east-1"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/trainer"
BUCKET = f"sagemaker-{REGION}-{ACCOUNT}"
TRUST = {
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}]
}


class Account:
    """The simulated account of one test."""

    def __init__(self, root: Path, moto: MotoServer) -> None:
        self._moto = moto
        self.clients = {
            name: boto3.client(name, region_name=REGION, endpoint_url=moto.url, **KEYS)
            for name in ("s3", "iam", "sts", "logs")
        }
        self.jobs = Jobs(root, ACCOUNT, self.clients)
        self.hosting = Hosting(ACCOUNT, self.clients)
        self.api = Api("sagemaker", {**self.jobs.operations(), **self.hosting.operations()})
        self.runtime = Runtime(self.hosting)
        self.logs = Logs(self.clients["logs"])
        self.logs_api = Api("logs", self.logs.operations())
        self.variables = {
            "AWS_ACCESS_KEY_ID": KEYS["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": KEYS["aws_secret_access_key"],
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": moto.url,
            "AWS_ENDPOINT_URL_SAGEMAKER": self.api.url,
            "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": self.runtime.url,
            "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": self.logs_api.url,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        """Environment variables with which a process reaches this account."""

    @property
    def calls(self) -> list[tuple[float, str]]:
        """Time (monotonic, seconds) and operation of every call of the product, over all services."""
        return sorted([*self.api.calls, *self.logs_api.calls, *self._moto.calls])

    @property
    def read_bytes(self) -> int:
        """Bytes that the product has read from S3, IAM and STS."""
        return self._moto.read_bytes

    @property
    def actions(self) -> set[str]:
        """Permissions that the product's calls need, over all services."""
        called = {action_of("sagemaker", each) for _, each in self.api.calls}
        called |= {action_of("logs", each) for _, each in self.logs_api.calls}
        called |= {"sagemaker:InvokeEndpoint"} if self.runtime.is_called else set()
        return called | self._moto.actions

    def forget_calls(self) -> None:
        """Forget the permissions of the calls so far, for a test that makes an undocumented call."""
        self._moto.actions.clear()

    def add_foreign_bucket(self, name: str) -> None:
        """Add a bucket that belongs to a different account."""
        self._moto.foreign_buckets.add(name)

    def make_role(self) -> str:
        """Create the role of the jobs and return its ARN."""
        self.clients["iam"].create_role(RoleName="trainer", AssumeRolePolicyDocument=json.dumps(TRUST))
        return ROLE


KEYS: dict[str, Any] = {"aws_access_key_id": "AKIAEXAMPLE", "aws_secret_access_key": "example"}


@contextmanager
def open_account(root: Path) -> Iterator[Account]:
    """Open an account, and stop all its servers and jobs at the end."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = MotoServer()
    moto.start()
    # moto's state belongs to the process, not to the server.
    urllib.request.urlopen(urllib.request.Request(f"{moto.url}/moto-api/reset", method="POST")).close()
    account = Account(root, moto)
    account.api.start()
    account.logs_api.start()
    account.runtime.start()
    try:
        yield account
        # Whatever a test does, the documented policies of users must allow it.
        assert not account.actions - documented(), "calls without a documented permission"
    finally:
        account.jobs.stop_all()
        account.api.close()
        account.logs_api.close()
        account.runtime.close()
        moto.close()


@contextmanager
def open_shared_account(root: Path) -> Iterator[Account]:
    """Open an account for several tests, whose user is this process."""
    with open_account(root) as account, pytest.MonkeyPatch.context() as patch:
        for name, value in account.variables.items():
            patch.setenv(name, value)
        yield account
