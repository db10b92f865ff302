"""The published workloads with tiny models on few rows: the run in MLflow is the same on SageMaker as on this machine,
except for times and costs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow import MlflowClient
from mlflow.entities import Run

from experiments.planning.load import FOLDER
from tests.support.aws.account import Account
from tests.support.job.published_workloads import SMALL_FIELDS, WORKLOADS, Fields, small_model
from tests.training.services.sagemaker.conftest import Terminal
from tracking.queries.job_tables import tags_of

pytestmark = pytest.mark.slow

VARYING_METRICS = re.compile(r"second|runtime|^(cost|machine|memory|system)/|^throughput/(model_flops|mfu)")
"""Names of metrics whose values differ in any two runs."""
SPOT = {"cost/interruptions", "cost/spot_savings_percent", "cost/training_seconds"}
"""Metrics of jobs whose billed time is less than their training time."""
MACHINE_PARAMETERS = {"machine.instance_type", "machine.instance_count", "machine.devices"}
"""Parameters that describe the instances."""


FIXED: Fields = {"precision": "fp32", "attention": "eager"}
"""Fields that a trial would choose on this machine, and a rule on SageMaker."""


SAGEMAKER_FIELDS: Mapping[str, Fields] = {
    "bert-large-squad-dp": {"machine.devices": 1, "machine.instance_count": 2},
    "distilbert-spot": {"machine.spot": "true", "machine.max_wait_seconds": 3600},
}
"""Fields on SageMaker: two devices become two instances, and an interruptible job uses spot instances."""


def at_sagemaker(folder: Path, terminal: Terminal, workload: str) -> Fields:
    """Return the fields that run a workload on SageMaker: a backend configuration or, for one, an experiment file."""
    aws = {"role": "trainer", "prices": str(terminal.fields["aws.prices"])}
    aws_fields = {"service": "sagemaker", "machine": {"instance_type": "ml.g5.xlarge"}, "aws": aws}
    if workload == "emotion-bert":
        copy = folder / "emotion-bert.yaml"
        copy.write_text((FOLDER / copy.name).read_text() + yaml.safe_dump(aws_fields))
        return {"experiment": copy}
    path = folder / "sagemaker.json"
    path.write_text(json.dumps(aws_fields))
    return {"backend_config": path, **SAGEMAKER_FIELDS.get(workload, {})}


@pytest.mark.gate
@pytest.mark.parametrize("workload", WORKLOADS)
def test_both_services_log_the_same_run(
    terminal: Terminal, account: Account, shared: Path, tmp_path: Path, workload: str
) -> None:
    kind, small = WORKLOADS[workload]
    model = {"model": small_model(tmp_path, kind), "weights": "random"} if kind else {}
    fields = {"experiment": workload, **SMALL_FIELDS, **FIXED, **model, **small(tmp_path, shared)}
    trained(terminal, fields)
    trained(terminal, {**fields, **at_sagemaker(tmp_path, terminal, workload)})
    local, remote_run = terminal.runs()
    assert tags_of(remote_run)["platform.service"] == "sagemaker"
    assert [remote_run.data.tags["platform.job_name"]] == account.jobs.names()

    names, remote = (
        {name for name in run.data.metrics if not name.startswith("system/")} for run in (local, remote_run)
    )
    assert remote - names - SPOT == {"cost/usd"}
    assert names - remote == set()
    shared_names = [name for name in names if not VARYING_METRICS.search(name)]
    assert {"loss", "eval_loss", "learning_rate", "samples"} <= set(shared_names)
    for name in shared_names:
        assert terminal.curve(remote_run, name) == terminal.curve(local, name) != [], name
    assert len(terminal.curve(local)) == 4
    costs, instances = remote_run.data.metrics, int(remote_run.data.params["machine.instance_count"])
    assert costs["cost/billable_instance_seconds"] == instances * costs["cost/billable_seconds"]
    # The price is a dollar per second.
    assert costs["cost/usd"] == costs["cost/billable_instance_seconds"]
    assert parameters(remote_run) == parameters(local)
    assert artifacts(terminal.client, remote_run) == artifacts(terminal.client, local)


def trained(terminal: Terminal, fields: Fields) -> None:
    output = terminal.run("train", *(word for name, value in fields.items() for word in (f"--{name}", str(value))))
    assert output.code == 0, output


def parameters(run: Run) -> dict[str, str]:
    return {name: value for name, value in run.data.params.items() if name not in MACHINE_PARAMETERS}


def artifacts(client: MlflowClient, run: Run) -> dict[str, Any]:
    """Return the run's artifacts by path, with the content of tables and plots."""
    folder = Path(client.download_artifacts(run.info.run_id, ""))
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() if name.startswith(("tables/", "plots/")) else None for name, path in files.items()}
