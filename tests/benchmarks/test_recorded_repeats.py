"""Test recorded repeats: which jobs are missing, and the noise of quiet and disturbed ones."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.recorded.noise import slowdowns
from benchmarks.recorded.record_workloads import Part, parts
from benchmarks.recorded.repeats_table import Repeat, Repeats, Setting, read, write

REPEAT = Repeat(
    seed=42, started_seconds=0.0, cache_state="off", billable_seconds=10.0, steady_samples_per_second=300.0,
    compile_seconds=0.0, warmup_seconds=1.0, samples=1500.0, eval_loss=1.4, eval_accuracy=0.64, disturbed="no",
)  # fmt: skip
QUIET = Setting(fields={"experiment": "demo"}, machine="a processor", commit="abc")


def table(setting: Setting, *seconds: float) -> Repeats:
    return Repeats(setting=setting, rows=[replace(REPEAT, billable_seconds=each) for each in seconds])


def test_slowdowns_are_relative_to_quiet_jobs_of_the_same_setting() -> None:
    # The geometric mean of 5 and 20 is 10, so 20 and 40 are 2 and 4 times as slow.
    busy = replace(QUIET, is_disturbed=True, commit="def")
    [values] = slowdowns([table(QUIET, 5.0, 20.0)], [table(busy, 20.0, 40.0)])
    assert list(values) == pytest.approx([math.log(2), math.log(4)])


def test_slowdowns_need_a_quiet_table_of_the_same_setting() -> None:
    other = replace(QUIET, fields={"experiment": "emotion"}, is_disturbed=True)
    assert list(slowdowns([table(QUIET, 10.0)], [table(other, 20.0)])) == []


def test_disturbed_jobs_of_a_quiet_table_are_left_out() -> None:
    quiet = table(QUIET, 10.0, 10.0, 70.0)
    marked = replace(quiet.rows[2], disturbed="other processes used 48 % of the job's CPUs")
    busy = table(replace(QUIET, is_disturbed=True), 20.0)
    [values] = slowdowns([replace(quiet, rows=[*quiet.rows[:2], marked])], [busy])
    assert list(values) == pytest.approx([math.log(2)])


def test_tables_without_marks_can_be_read(tmp_path: Path) -> None:
    write("demo", table(QUIET, 10.0), tmp_path)
    path = tmp_path / "demo.csv"
    path.write_text("\n".join(line.rsplit(",", 2)[0] for line in path.read_text().splitlines()) + "\n")
    repeats = read("demo", tmp_path)
    assert repeats is not None
    assert repeats.rows == [replace(REPEAT, disturbed="")]
    assert not repeats.rows[0].is_disturbed


def test_the_tables_grow_in_turn() -> None:
    assert list(parts(["demo"], 7, {})) == [
        Part("demo", False, 5),
        Part("demo", True, 5),
        Part("demo", False, 2),
        Part("demo", True, 2),
    ]


def test_recorded_repeats_are_not_recorded_again() -> None:
    assert list(parts(["demo"], 12, {"demo": 12, "demo-beside-load": 6})) == [
        Part("demo", True, 4),
        Part("demo", True, 2),
    ]


def test_only_times_of_the_same_recording_are_compared(tmp_path: Path) -> None:
    # The second recording's machine is twice as fast: 10 s are a slowdown there, but not in the first recording.
    first, second = (table(QUIET, 10.0, 10.0), table(QUIET, 5.0, 5.0))
    both = replace(first, rows=[*first.rows, *(replace(row, recording=2) for row in second.rows)])
    write("demo", both, tmp_path)
    quiet = read("demo", tmp_path)
    assert quiet is not None
    assert [len(part.rows) for part in quiet.recordings.values()] == [2, 2]
    busy = replace(QUIET, is_disturbed=True)
    loaded = [replace(part, setting=busy, rows=table(busy, 10.0).rows) for part in quiet.recordings.values()]
    loaded[1] = replace(loaded[1], rows=[replace(row, recording=2) for row in loaded[1].rows])
    [in_first, in_second] = slowdowns(quiet.recordings.values(), loaded)
    assert [*in_first, *in_second] == pytest.approx([0.0, math.log(2)])
