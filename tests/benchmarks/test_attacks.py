"""A few rounds of the counted attacks on state; `python -m benchmarks.bench_attacks` runs all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.attacks import damage, first_use
from benchmarks.attacks.counts import Counts
from benchmarks.support.damaged_state import KINDS


@pytest.mark.slow
def test_one_damaged_file_of_each_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", sys.executable)  # which the attack replaces
    check(damage.attack(tmp_path, len(KINDS), seed=1), len(KINDS))


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(first_use.USES))
def test_kills_at_the_first_use_of_a_database(tmp_path: Path, kind: str) -> None:
    check(first_use.kills(tmp_path, kind, 5), 5)
    check(first_use.together(tmp_path, kind, 2), 2)


def check(counts: Counts, tried: int) -> None:
    assert (counts.tried, counts.survived, counts.faults) == (tried, tried, [])
