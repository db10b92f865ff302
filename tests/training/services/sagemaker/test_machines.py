"""Jobs on several instances, each with its own container."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.aws.account import Account
from tests.support.aws.streams import streams
from tests.support.services.following import ended
from tests.support.services.harness import SageMakerHarness
from training.services.launcher import failure_of, submit

pytestmark = pytest.mark.slow

TWO: dict[str, Any] = {
    "instance_type": "ml.g5.xlarge",
    "instance_count": 2,
    "environment": {"CUDA_VISIBLE_DEVICES": ""},
}


@pytest.fixture
def harness(tmp_path: Path, account: Account) -> SageMakerHarness:
    return SageMakerHarness(tmp_path, account)


def test_instances_can_communicate(harness: SageMakerHarness, account: Account) -> None:
    script = """
        import json, os, pathlib, torch, torch.distributed as dist
        dist.init_process_group("gloo")
        total = torch.tensor([dist.get_rank() + 1.0])
        dist.all_reduce(total)
        config = json.loads(pathlib.Path(os.environ["SM_INPUT_CONFIG_DIR"], "resourceconfig.json").read_text())
        result = {"rank": dist.get_rank(), "sum": total.item(), "here": os.environ["SM_CURRENT_HOST"]}
        result |= {"hosts": json.loads(os.environ["SM_HOSTS"]), "config": [config["current_host"], config["hosts"]]}
        print(json.dumps(result), flush=True)
        dist.destroy_process_group()
        os._exit(0)  # Shutting down Python can abort the process (see train.py).
    """
    description, lines = ended(submit(harness.service, harness.request(script, **TWO)))
    assert description["TrainingJobStatus"] == "Completed", lines
    assert sorted(line.partition("{")[0] for line in lines if '"rank"' in line) == ["", "[algo-2] "]
    # Other lines are warnings of Gloo and torchrun about this machine's network.
    logs = streams(account, "job")
    results = {name: json.loads(line) for name, lines in logs.items() for line in lines if line.startswith("{")}
    names = ["algo-1", "algo-2"]
    assert results == {
        name: {"rank": rank, "sum": 3.0, "here": name, "hosts": names, "config": [name, names]}
        for rank, name in enumerate(names)
    }


def test_one_process_runs_on_each_gpu_of_an_instance(harness: SageMakerHarness) -> None:
    script = """
        import os
        os.write(1, f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}\\n".encode())
    """
    one = {"instance_type": "ml.g5.12xlarge", "instance_count": 1, "devices": 4, "launcher": "pytorchddp"}
    request = harness.request(script, **TWO | one)
    description, lines = ended(submit(harness.service, request))
    assert description["TrainingJobStatus"] == "Completed", lines
    assert sorted(line for line in lines if line.startswith("rank")) == [f"rank {rank} of 4" for rank in range(4)]


def test_an_instance_that_fails_ends_the_job(harness: SageMakerHarness) -> None:
    script = """
        import os, time
        if os.environ["SM_CURRENT_HOST"] == "algo-2": raise MemoryError("no room on the second machine")
        time.sleep(300)
    """
    description, lines = ended(submit(harness.service, harness.request(script, **TWO)))
    assert description["TrainingJobStatus"] == "Failed"
    assert failure_of(description, [], lines)[0] == "OutOfMemory"
    assert not harness.has_processes("job")
