"""The command line on SageMaker: a job has the same losses as on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from tests.end_to_end.conftest import CommandLine
from tests.support.aws.account import Account
from tests.support.job.tiny import TINY
from tracking.queries.job_tables import tags_of

pytestmark = pytest.mark.slow


@pytest.fixture
def prices(tmp_path: Path) -> dict[str, object]:
    table = tmp_path / "prices.json"
    table.write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": {"ml.g5.xlarge": 3600.0}}))
    return {"aws.prices": table}


def losses(command_line: CommandLine, run: Run) -> list[float]:
    return [each.value for each in MlflowClient(command_line.uri).get_metric_history(run.info.run_id, "loss")]


@pytest.mark.gate
def test_a_job_has_the_same_losses_on_both_services(
    command_line: CommandLine, reviews: dict[str, object], account: Account, prices: dict[str, object], tmp_path: Path
) -> None:
    """The SageMaker job is started by `mlflow run`, with a backend configuration."""
    account.make_role()
    backend = tmp_path / "sage maker.json"
    backend.write_text(json.dumps({"machine": {"instance_type": "ml.g5.xlarge"}, "aws": {"role": "trainer"}}))
    # A trial would choose these on this machine, and a rule on SageMaker.
    reviews |= {**TINY, "save_model": "true", "precision": "fp32", "attention": "eager"}
    here = command_line("train", {**reviews, "log_model": "none"})
    assert here.returncode == 0, here.stdout + here.stderr
    there = command_line.by_mlflow("train", {**reviews, **prices, "backend_config": backend, "service": "sagemaker"})
    assert there.returncode == 0, there.stdout + there.stderr
    local, remote = command_line.runs()
    assert losses(command_line, local) == losses(command_line, remote) != []
    assert set(local.data.metrics) - set(remote.data.metrics) <= {
        name for name in local.data.metrics if name.startswith("system/")
    }
    assert set(remote.data.metrics) - set(local.data.metrics) == {"cost/usd"}
    tags, metrics = tags_of(remote), remote.data.metrics
    # At a dollar a second.
    assert metrics["cost/usd"] == metrics["cost/billable_seconds"]
    assert (tags["platform.price_source"], tags["platform.price_date"]) == ("prices.json", "2026-11-01")
    assert (tags["platform.service"], tags["platform.instance_type"]) == ("sagemaker", "ml.g5.xlarge")
    assert "huggingface-pytorch-training:2.9.0-transformers5.3.0" in tags["platform.image"]
    assert tags["platform.model_uri"].startswith("s3://sagemaker-us-east-1-")
    model = MlflowClient(command_line.uri).get_logged_model(tags["platform.model_id"])
    assert (model.source_run_id, model.status) == (remote.info.run_id, "READY")
    assert "platform.model_id" not in local.data.tags
    [name] = account.jobs.names()
    assert name == tags["platform.job_name"]
