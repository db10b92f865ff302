"""The token is read from a variable or a secret. Errors name the source, but never the token."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from publishing.hub_token import find_token
from reporting.errors import ArgumentError
from reporting.events import Events
from reporting.failure import report
from tests.support.hub.secrets_server import keeping

TOKEN = "hf_QwErTz1234567890secret"
ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:hub-AbCdEf"


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    values = {"plain": f"{TOKEN}\n", "keyed": json.dumps({"HF_TOKEN": TOKEN, "other": "x"}), ARN: TOKEN}
    values |= {"empty": "", "without": json.dumps({"another": TOKEN})}
    with keeping(values) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield


def test_the_token_is_read_from_a_variable() -> None:
    assert find_token("MY_TOKEN", None, {"MY_TOKEN": f" {TOKEN}\r\n"}) == TOKEN


@pytest.mark.parametrize(
    "content", ["", " \n", f"{TOKEN} {TOKEN}", f"{TOKEN}\r\nX-Other: 1", f"{TOKEN}é", f"{TOKEN}\0"]
)
def test_an_invalid_token_is_not_quoted(content: str) -> None:
    with pytest.raises(ArgumentError, match="environment variable MY_TOKEN") as caught:
        find_token("MY_TOKEN", None, {"MY_TOKEN": content})
    assert TOKEN not in str(caught.value)


def test_an_unset_variable_is_named() -> None:
    with pytest.raises(ArgumentError, match="environment variable MY_TOKEN is empty"):
        find_token("MY_TOKEN", None, {"HF_TOKEN": TOKEN})


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("name", ["plain", "keyed", ARN])
def test_the_token_is_read_from_a_secret(name: str) -> None:
    assert find_token("HF_TOKEN", name, {"HF_TOKEN": "hf_not_this", "AWS_REGION": "eu-west-1"}) == TOKEN


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize(
    ("name", "reason"), [("nowhere", "can't find the secret"), ("empty", "is empty"), ("without", "is empty")]
)
def test_a_secret_without_a_token_is_named(name: str, reason: str) -> None:
    with pytest.raises(ArgumentError, match=rf"secret {name} .*{reason}") as caught:
        find_token("HF_TOKEN", name, {"AWS_REGION": "eu-west-1"})
    assert TOKEN not in str(caught.value)


def test_no_event_and_no_failure_shows_the_token(tmp_path: Path) -> None:
    quoted = 'a"b\\c'
    stderr, stdout = io.StringIO(), tmp_path / "out"
    with stdout.open("wb") as stream:
        events = Events(tmp_path / "data", descriptor=stream.fileno())
        events.hide(TOKEN)
        events.hide(quoted)
        try:
            raise ValueError(f"Bearer {TOKEN} and {quoted} were refused") from KeyError(TOKEN)
        except ValueError as error:
            with redirect_stderr(stderr):
                report(error, events, tmp_path / "output")
    texts = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()] + [stderr.getvalue()]
    assert len(texts) == 4
    assert not [text for text in texts if TOKEN in text or quoted in text or json.dumps(quoted)[1:-1] in text]
    assert "Bearer (hidden) and (hidden) were refused" in (tmp_path / "output" / "failure").read_text()
