"""Test recorded noise: equal jobs of a grid, quiet and disturbed recordings, and draws of their deviations."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks.recorded.noise import Recording, deviations, equal_jobs, read, recorded_noise, slowdowns
from benchmarks.recorded.replay import Cells, build_grid


def evaluated(size: int, multiplier: float, *seconds: float) -> list[Cells]:
    """Evaluations every 100 samples, and the end 1 s later."""
    fields = {"batch_size": size, "multiplier": multiplier, "seed": 0, "value": 1.0, "reached": False}
    rows = [{**fields, "samples": 100 * at, "billable_seconds": s} for at, s in enumerate(seconds, start=1)]
    return [*rows, {**rows[-1], "billable_seconds": seconds[-1] + 1}]


def test_jobs_of_one_batch_size_are_equal_up_to_their_last_common_evaluation() -> None:
    spec = {"metric": "eval_loss", "higher_is_better": False, "target": 0.5, "samples": 300, "base_batch_size": 8}
    rows = [*evaluated(8, 1.0, 10.0, 20.0, 30.0), *evaluated(8, 2.0, 11.0, 22.0), *evaluated(16, 1.0, 5.0)]
    assert equal_jobs(build_grid(spec, rows)) == [[20.0, 22.0], [5.0]]


def test_deviations_have_the_variance_of_the_jobs() -> None:
    # 1, 2 and 3 have variance 1 with 2 degrees of freedom. -1.2247, 0 and 1.2247 have variance 1 if drawn uniformly.
    assert list(deviations([1.0, 2.0, 3.0])) == pytest.approx([-math.sqrt(1.5), 0.0, math.sqrt(1.5)])


def recorded(folder: Path, name: str, *rows: str, is_disturbed: bool = False) -> list[Recording]:
    """Write a table whose rows have the seconds, the mark and the number of the recording, and read it."""
    setting = {"fields": {"experiment": "demo"}, "machine": "a CPU", "is_disturbed": is_disturbed}
    (folder / f"{name}.json").write_text(json.dumps(setting))
    lines = ["billable_seconds,disturbed,recording,cache_state,eval_accuracy", *(f"{row},off,nan" for row in rows)]
    (folder / f"{name}.csv").write_text("\n".join(lines))
    return read(name, folder)


def test_slowdowns_are_relative_to_quiet_jobs_of_the_same_recording(tmp_path: Path) -> None:
    # The geometric mean of the quiet 5 and 20 is 10, so 20 and 40 are 2 and 4 times as slow. A job of a quiet table
    # that others disturbed does not count. In the second recording, the machine is twice as slow.
    quiet = recorded(tmp_path, "quiet", "5,no,1", "20,no,1", "70,other processes used 48 % of the CPUs,1", "20,no,2")
    busy = recorded(tmp_path, "busy", "20,yes,1", "40,yes,1", "40,yes,2", "30,yes,3", is_disturbed=True)
    first, second = slowdowns(quiet, busy)
    assert list(first) == pytest.approx([math.log(2), math.log(4)])
    assert list(second) == pytest.approx([math.log(2)])


def test_recorded_noise_can_be_sampled() -> None:
    noise = recorded_noise()
    assert len(noise.seconds) >= 30
    assert 0.001 < noise.spread < 0.5
    assert noise.seconds.mean() == pytest.approx(0.0, abs=1e-9)
