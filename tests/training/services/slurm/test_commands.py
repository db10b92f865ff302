"""Options, environment and messages of Slurm's commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.services.following import ended
from tests.support.services.harness import LocalHarness, SlurmHarness
from tests.support.services.slurm_cluster import SlurmCluster
from training.contract.errors import InputError
from training.services.launcher import submit
from training.services.slurm.commands import options


def test_options_state_what_a_job_needs(tmp_path: Path) -> None:
    fields = {"partition": "long", "account": "lab", "qos": "low", "constraint": "a|b", "gpu": "a100"}
    environment = {
        "TRAINFARE_CORES": "6",
        "TRAINFARE_MEMORY_GIB": "1.5001",
        "TRAINFARE_STOP_GRACE_SECONDS": "20.5",
        "TRAINFARE_SERVICE_FIELDS": json.dumps({**fields, "options": ["--exclusive", "--time=9"]}),
    }
    machines = {"devices": 2, "instance_count": 3, "instance_type": "slurm:long"}
    request = LocalHarness(tmp_path).request("", environment=environment, max_run_seconds=100, **machines)
    assert options(request) == [
        *("--partition=long", "--account=lab", "--qos=low", "--constraint=a|b", "--gpus-per-node=a100:2"),
        *("--cpus-per-task=6", "--mem=1537M"),
        "--time=6",  # 100 s, 21 s for the script to end and 180 s to pack its model are 301 s
        *("--nodes=3", "--ntasks-per-node=1", "--exclusive", "--time=9"),
    ]
    any_gpu = {"environment": {"TRAINFARE_SERVICE_FIELDS": '{"gpu": "any"}'}, "max_run_seconds": 59}
    (tmp_path / "other").mkdir()
    assert options(LocalHarness(tmp_path / "other").request("", **any_gpu)) == [
        *("--gpus-per-node=1", "--cpus-per-task=1", "--time=4", "--nodes=1", "--ntasks-per-node=1")
    ]


@pytest.mark.slurm
@pytest.mark.gate
def test_a_script_sees_the_variables_of_its_prologue_and_few_others(
    harness: SlurmHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LC_TEST", "TOKEN", "OTHER_TOKEN"):
        monkeypatch.setenv(name, f"{name} of the launcher")
    script = """
        import json, os
        names = ("LC_TEST", "TOKEN", "OTHER_TOKEN", "FROM_PROLOGUE", "SECOND_LINE", "PYTHONPATH", "SM_CURRENT_HOST")
        print(json.dumps({name: os.environ[name] for name in names if name in os.environ}))
        print([name for name in os.environ if name.startswith(("SLURM", "SBATCH", "SRUN"))])
    """
    fields = {"prologue": "export FROM_PROLOGUE='a \"b\" $c'\nexport SECOND_LINE=$((1 + 1))"}
    environment = {"TRAINFARE_SECRET_VARIABLES": "TOKEN", "TRAINFARE_SERVICE_FIELDS": json.dumps(fields)}
    _, [seen, slurms] = ended(submit(harness.service, harness.request(script, environment=environment)))
    assert json.loads(seen) == {
        "LC_TEST": "LC_TEST of the launcher",
        "TOKEN": "TOKEN of the launcher",
        "FROM_PROLOGUE": 'a "b" $c',
        "SECOND_LINE": "2",
        "SM_CURRENT_HOST": "localhost",
    }
    assert slurms == "[]"
    assert not any(b"of the launcher" in path.read_bytes() for path in harness.root.rglob("*.json"))


@pytest.mark.slurm
def test_a_refused_job_leaves_no_folder(harness: SlurmHarness, shared_cluster: SlurmCluster) -> None:
    def request(partition: str) -> dict:
        fields = {"TRAINFARE_SERVICE_FIELDS": json.dumps({"partition": partition})}
        return harness.request("print(1)", environment=fields)

    with pytest.raises(InputError) as error:
        submit(harness.service, request("nowhere"))
    assert str(error.value) == (
        "Slurm refuses it: invalid partition specified: nowhere Batch job submission failed: Invalid partition name "
        "specified."
    )
    assert list(harness.job_folder().parent.glob("[!.]*")) == []
    assert ended(submit(harness.service, request("cpu")))[1] == ["1"]
