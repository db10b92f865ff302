"""Endpoints of a simulated account, which the tests of a module share, and a model folder with small files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.endpoints.protocol import EndpointSpec
from models.endpoints.sagemaker import endpoints as module
from models.endpoints.sagemaker.endpoints import SageMakerEndpoints
from tests.support.aws.account import Account, open_shared_account
from training.contract.retry import RetryPolicy

QUICK = RetryPolicy(first_pause_seconds=0.01, longest_pause_seconds=0.01)


@pytest.fixture(scope="module")
def shared_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with open_shared_account(tmp_path_factory.mktemp("account")) as account:
        account.make_role()
        yield account


@pytest.fixture
def account(shared_account: Account) -> Account:
    """The module's account without endpoints, calls and planned errors."""
    shared_account.hosting.clear()
    shared_account.api.calls.clear()
    for server in (shared_account.api, shared_account.runtime):
        server.faults.clear()
    return shared_account


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
        task="classification",
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
    monkeypatch.setattr(module, "LINE_SECONDS", 0.0)
    return opened(tmp_path)


def opened(
    tmp_path: Path, pauses: RetryPolicy = QUICK, *, is_read_only: bool = False, **more: Any
) -> SageMakerEndpoints:
    """Open the endpoints like another process, with a price table of the user."""
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": {"ml.g4dn.xlarge": 36.0}}))
    fields = {"role": "trainer", "prices": str(prices), **more}
    return SageMakerEndpoints(fields, lambda _: None, pauses, is_read_only=is_read_only)
