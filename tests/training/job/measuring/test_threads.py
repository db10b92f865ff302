"""The number of threads of a job."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from training.job.measuring.hardware import cpu_quota, is_fixed, set_threads


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, math.inf),
        ({"sys/fs/cgroup/cpu.max": "400000 100000"}, 4),
        ({"sys/fs/cgroup/cpu.max": "150000 100000"}, 1.5),
        ({"sys/fs/cgroup/cpu.max": "max 100000"}, math.inf),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 3),
    ],
)
def test_a_quota_limits_the_cpus(tmp_path: Path, files: dict[str, str], cpus: float) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cpu_quota(tmp_path) == cpus


@pytest.mark.parametrize(
    ("environment", "fixed"),
    [
        ({}, False),
        # The service sets as many threads as the job has CPUs.
        ({"OMP_NUM_THREADS": "8", "SM_NUM_CPUS": "8"}, False),
        ({"OMP_NUM_THREADS": "4", "SM_NUM_CPUS": "8"}, True),
        ({"OMP_NUM_THREADS": "8"}, True),
        ({"TRAINFARE_CORES": "2", "OMP_NUM_THREADS": "2", "SM_NUM_CPUS": "2"}, True),
    ],
)
def test_a_number_that_somebody_chose_is_fixed(environment: dict[str, str], fixed: bool) -> None:
    assert is_fixed(environment) is fixed


def test_threads_at_the_start_follow_the_variable() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        # OpenMP allows a number for each level of nested threads.
        set_threads({"OMP_NUM_THREADS": "1,2"})
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
