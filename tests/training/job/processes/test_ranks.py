"""Ranks and counts from the variables that launchers set."""

from __future__ import annotations

import pytest

from processes import ranks


def test_ranks_and_counts_are_read_from_launcher_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ranks.RANK_VARIABLES, *ranks.COUNT_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    assert (ranks.rank(), ranks.count()) == (0, 1)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert (ranks.rank(), ranks.count()) == (3, 8)
