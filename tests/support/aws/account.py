"""A simulated AWS account: SageMaker with jobs that really run, and moto's S3, IAM, STS and CloudWatch Logs."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import boto3
import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from tests.support.aws.api import Api
from tests.support.aws.hosting import Hosting, Runtime
from tests.support.aws.logs import Logs
from tests.support.aws.quotas import Quotas
from tests.support.aws.rights import action_of, documented, rest_action
from tests.support.aws.training import Jobs
from tests.support.endpoints.served import Serving

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
        self.quotas = Quotas()
        self.quotas_api = Api("service-quotas", self.quotas.operations())
        self.variables = {
            "AWS_ACCESS_KEY_ID": KEYS["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": KEYS["aws_secret_access_key"],
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": moto.url,
            "AWS_ENDPOINT_URL_SAGEMAKER": self.api.url,
            "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": self.runtime.url,
            "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": self.logs_api.url,
            "AWS_ENDPOINT_URL_SERVICE_QUOTAS": self.quotas_api.url,
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
        called |= {action_of("servicequotas", each) for _, each in self.quotas_api.calls}
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
    account.quotas_api.start()
    account.runtime.start()
    try:
        yield account
        # Whatever a test does, the documented policies of users must allow it.
        assert not account.actions - documented(), "calls without a documented permission"
    finally:
        account.jobs.stop_all()
        account.api.close()
        account.logs_api.close()
        account.quotas_api.close()
        account.runtime.close()
        moto.close()


@contextmanager
def open_shared_account(root: Path) -> Iterator[Account]:
    """Open an account for several tests, whose user is this process."""
    with open_account(root) as account, pytest.MonkeyPatch.context() as patch:
        for name, value in account.variables.items():
            patch.setenv(name, value)
        yield account


class MotoServer(Serving):
    """S3, IAM, STS and CloudWatch Logs, in a thread of this process."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, str]] = []
        """Time (monotonic, seconds) and operation of every call of the product's clients."""
        self.actions: set[str] = set()
        """Permissions that these calls need, such as `s3:GetObject`."""
        self.read_bytes = 0
        """Size of the responses to the product's calls."""
        self.foreign_buckets: set[str] = set()
        """Buckets of another account; moto does not simulate them."""
        self._put_lock = threading.Lock()  # moto counts its events without a lock, so two could get the same id.
        self._app = DomainDispatcherApplication(create_backend_app)
        super().__init__(make_server("127.0.0.1", 0, self._answer, True, request_handler=MotoRequestHandler))

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        operation = environ.get("HTTP_X_AMZ_TARGET", "").partition(".")[2]
        if "trainfare" in environ.get("HTTP_USER_AGENT", ""):
            self.calls.append((time.monotonic(), operation or f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"))
            self.actions.add(_action(environ, operation))
            start_response = self._counting(start_response)
        if environ["PATH_INFO"].split("/")[1] in self.foreign_buckets:
            start_response("403 Forbidden", [("Content-Length", "0")])
            return []
        with self._put_lock if operation == "PutLogEvents" else nullcontext():
            response: Iterable[bytes] = self._app(environ, start_response)
        return response

    def _counting(self, start_response: Callable[..., Any]) -> Callable[..., Any]:
        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            self.read_bytes += int(dict(headers).get("Content-Length", 0))
            return start_response(status, headers, *more)

        return start


def _action(environ: dict[str, Any], operation: str) -> str:
    """Return the permission that a call needs.

    S3 and endpoints have REST calls. Those of IAM and STS name their operation in a form.
    """
    service = re.search(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
    assert service, "an unsigned call"
    if service[1] == "s3":
        return rest_action(environ["REQUEST_METHOD"], environ["PATH_INFO"], environ.get("QUERY_STRING", ""))
    if operation:
        return action_of(service[1], operation)
    if environ["PATH_INFO"].endswith("/invocations"):
        return "sagemaker:InvokeEndpoint"
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return action_of(service[1], parse_qs(body.decode())["Action"][0])
