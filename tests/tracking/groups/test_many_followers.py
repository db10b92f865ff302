"""Several launchers follow the same group: each job trains once and has one run, with each point once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import TrackingServer
from tests.support.attacks.followers import follow

ROUNDS = 10


@pytest.mark.slow
def test_five_followers_over_sqlite(tracking_uri: str, tmp_path: Path) -> None:
    counts = follow(tmp_path, tracking_uri, "SQLite", ROUNDS)
    assert (counts.survived, counts.faults) == (ROUNDS, [])


@pytest.mark.slow
def test_five_followers_over_a_server(tracking_server: TrackingServer, tmp_path: Path) -> None:
    counts = follow(tmp_path, tracking_server.uri, "a server", ROUNDS)
    assert (counts.survived, counts.faults) == (ROUNDS, [])
