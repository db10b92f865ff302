"""Copies of logs: complete on disk, and bounded in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.attacks.logs import MAX_GROWTH_MIB, attempt
from tracking.recording.job_copies import TAIL_CHARACTERS, TAIL_LINES, LogCopy


def test_a_copy_has_all_lines() -> None:
    log = LogCopy()
    log.append(["one", "", "zwei ü\r"])
    log.append(["x" * 3_000_000])
    log.append([])
    with log.as_file("log.txt") as path:
        assert path.name == "log.txt"
        assert path.read_bytes().decode() == "one\n\nzwei ü\r\n" + "x" * 3_000_000 + "\n"
    assert not path.exists()
    log.append(["later"])
    with log.as_file("log.txt") as path:
        assert path.read_bytes().endswith(b"x\nlater\n")


def test_the_tail_is_bounded() -> None:
    log = LogCopy()
    assert log.tail(20) == []
    log.append([f"{number} " + "x" * TAIL_CHARACTERS for number in range(TAIL_LINES + 5)])
    assert len(log.tail()) == TAIL_LINES
    assert [line.split()[0] for line in log.tail(2)] == ["1003", "1004"]
    assert {len(line) for line in log.tail()} == {TAIL_CHARACTERS}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lines", "endless line"])
def test_memory_does_not_grow_with_the_log(tmp_path: Path, kind: str) -> None:
    launcher, supervisor, fault = attempt(tmp_path, kind, 0)
    long_launcher, long_supervisor, long_fault = attempt(tmp_path, kind, 150)
    assert (fault, long_fault) == ("", "")
    assert long_launcher - launcher < MAX_GROWTH_MIB
    assert long_supervisor - supervisor < MAX_GROWTH_MIB
