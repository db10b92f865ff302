"""Two processes on this machine with torchrun: their ranks, and their end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.services.following import ended
from tests.support.services.harness import LocalHarness
from training.services.launcher import failure_of, submit

CORES = {"TRAINFARE_CORES": str(len(os.sched_getaffinity(0))), "CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.slow
def test_two_processes_add_up_their_ranks(tmp_path: Path) -> None:
    harness = LocalHarness(tmp_path)
    script = """
        import os, sys, torch, torch.distributed as dist
        dist.init_process_group("gloo")
        total = torch.tensor([dist.get_rank() + 1.0])
        dist.all_reduce(total)
        # One write: the lines of two processes must not mix.
        os.write(1, f"rank {dist.get_rank()} of {dist.get_world_size()}: {total.item()} {sys.argv[1:]}\\n".encode())
        dist.destroy_process_group()
        os._exit(0)  # Shutting down Python can abort the process (see train.py).
    """
    request = harness.request(script, devices=2, hyperparameters={"nproc_per_node": 7}, environment=CORES)
    description, lines = ended(submit(harness.service, request))
    assert description["TrainingJobStatus"] == "Completed", lines
    ranks = sorted(line for line in lines if line.startswith("rank"))
    assert ranks == [f"rank {rank} of 2: 3.0 ['--nproc_per_node', '7']" for rank in range(2)]


@pytest.mark.gate
@pytest.mark.slow
def test_a_killed_process_ends_the_job(tmp_path: Path) -> None:
    harness = LocalHarness(tmp_path)
    script = """
        import os, signal, time
        if os.environ["RANK"] == "1": os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(300)
    """
    description, lines = ended(submit(harness.service, harness.request(script, devices=2, environment=CORES)))
    assert description["TrainingJobStatus"] == "Failed"
    assert "Killed by SIGKILL" in description["FailureReason"]
    assert failure_of(description, [], lines)[0] == "Killed"
    assert not harness.has_processes("job")
