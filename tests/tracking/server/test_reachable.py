"""A PostgreSQL server that cannot be reached is one sentence within seconds, for runs, models and sweeps."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator

import pytest

from sweeps.storage import _ENGINE, open_storage
from tests.support.ports import free_port
from tests.support.sweeps.postgres import postgres
from tracking.server.store import open_store, require_answer
from training.contract.errors import StorageError, TrackingError


@pytest.fixture
def silent() -> Iterator[int]:
    """Port that accepts connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "2")
    monkeypatch.setattr("tracking.server.store._CONNECT_SECONDS", 0.1)
    monkeypatch.setattr("sweeps.storage._OPENING_SECONDS", 0.1)
    monkeypatch.setitem(_ENGINE["postgresql"]["connect_args"], "connect_timeout", 2)


def address(port: int) -> str:
    return f"postgresql+psycopg://me:secret@127.0.0.1:{port}/runs"


def test_a_closed_port_is_one_sentence() -> None:
    closed = free_port()
    with pytest.raises(TrackingError) as failure:
        open_store(address(closed))
    assert re.fullmatch(
        rf"The tracking server postgresql\+psycopg://127\.0\.0\.1:{closed}/runs has not answered for \d+ s: "
        r"nothing listens at this address\. Nothing was started\.",
        str(failure.value),
    )


@pytest.mark.parametrize("use", [open_store, open_storage])
def test_a_server_that_accepts_and_never_answers_is_one_sentence(silent: int, use: Callable[[str], object]) -> None:
    with pytest.raises((TrackingError, StorageError)) as failure:
        use(address(silent))
    assert re.search(
        r"has not answered for \d+ s: (no answer in time|connection timeout expired)\.", str(failure.value)
    )
    assert "secret" not in str(failure.value)


def test_a_password_that_breaks_the_address_is_not_shown() -> None:
    with pytest.raises(TrackingError, match="is not an address of a database") as failure:
        open_store("postgresql+psycopg://me:se@cret@host:54x/runs")
    assert "cret" not in str(failure.value)


def test_a_refused_user_is_reported_at_once_and_a_real_server_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "60")
    with postgres() as uri:
        uri = uri.replace("postgresql://", "postgresql+psycopg://")
        require_answer(uri)
        with pytest.raises(TrackingError, match='database "missing" does not exist'):
            require_answer(uri.replace("/postgres?", "/missing?"))
