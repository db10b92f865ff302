"""Endpoints of a simulated account, and a model folder with small files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.endpoints.protocol import EndpointSpec
from models.endpoints.sagemaker.endpoints import SageMakerEndpoints, open_endpoints
from models.endpoints.sagemaker.waiting import WaitPolicy
from tests.support.aws.account import Account
from training.services.sagemaker import clients

QUICK = WaitPolicy(first_seconds=0.01, longest_seconds=0.01, line_seconds=0.0, delete_seconds=300.0)
"""Looks as often as it can, and says every one."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder. Only its config.json is read."""
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text(json.dumps({"architectures": ["BertForSequenceClassification"]}))
    (made / "model.safetensors").write_bytes(b"weights" * 1000)
    (made / "tokenizer.json").write_text("{}")
    return made


@pytest.fixture
def spec(folder: Path) -> Callable[..., EndpointSpec]:
    """Returns a function that makes an endpoint's spec."""
    first = EndpointSpec(
        name="emotion",
        model=folder,
        run_id="0123abc",
        versions="torch 2.9.0, transformers 5.3.0",
        machine="ml.g4dn.xlarge",
        wait_seconds=300.0,
    )
    return lambda **fields: replace(first, **fields)


@pytest.fixture
def endpoints(account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SageMakerEndpoints:
    """The account's endpoints at 36 dollars an hour, which is one cent a second."""
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "3")
    monkeypatch.setattr(clients, "CALLS_PER_SECOND", 1000.0)
    account.make_role()
    return opened(tmp_path)


def opened(tmp_path: Path, waiting: WaitPolicy = QUICK, **fields: Any) -> SageMakerEndpoints:
    """Open the endpoints like another process, with a price table of the user."""
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": {"ml.g4dn.xlarge": 36.0}}))
    return open_endpoints({"role": "trainer", "prices": str(prices), **fields}, lambda _: None, waiting)


@pytest.fixture
def deploy(
    endpoints: SageMakerEndpoints, account: Account, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Arguments of the `deploy` command."""
    account.hosting.looks = 0
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prices.json").write_text('{"date": "2026-11-01", "usd_per_hour": {"ml.g4dn.xlarge": 36}}')
    fields = {"model": folder, "name": "emotion", "service": "sagemaker", "machine": "ml.g4dn.xlarge"}
    fields |= {"aws.role": "trainer", "aws.prices": tmp_path / "prices.json"}
    return ["deploy", *(word for name, value in fields.items() for word in (f"--{name}", str(value)))]
