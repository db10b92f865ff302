"""Plans of deployments from the command line's fields."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.dry_runs.command_plan import print_plan
from experiments.dry_runs.dry_run import NOT_STAGED, ScratchState, job_entry, plan_deploy, scratch_state
from experiments.planning.load import Arm, load
from experiments.planning.plan import job
from tests.support.aws.account import Account
from tests.support.models.made_models import tiny_folder
from training.staging import stage
from training.staging.tokens.staged import Staged


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScratchState]:
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    shutil.copytree(tiny_folder(), tmp_path / "model")
    (tmp_path / "prices.json").write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": {"ml.g4dn.xlarge": 36.0}}))
    with scratch_state(tmp_path / "home") as state:
        yield state


def test_a_deployment_on_this_machine(scratch: ScratchState, tmp_path: Path) -> None:
    plan = plan_deploy({"model": str(tmp_path / "model"), "endpoint": "demo"}, scratch)
    assert (plan.exit_code, plan.refusals) == (0, {})
    assert plan.endpoint is not None
    assert (plan.endpoint.deployment.action, plan.endpoint.deployment.requests) == ("create", ())
    assert not (tmp_path / "home").exists()


def test_a_deployment_on_sagemaker_has_its_price(
    scratch: ScratchState, tmp_path: Path, account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    account.make_role()
    fields = {
        "model": str(tmp_path / "model"),
        "service": "sagemaker",
        "machine.instance_type": "ml.g4dn.xlarge",
        "machine.instance_count": "2",
    }
    fields |= {"aws.role": "trainer", "aws.prices": str(tmp_path / "prices.json")}
    plan = plan_deploy(fields, scratch)
    assert plan.refusals == {}
    assert plan.endpoint is not None
    assert [operation for operation, _ in plan.endpoint.deployment.requests] == [
        "CreateModel",
        "CreateEndpointConfig",
        "CreateEndpoint",
    ]
    print_plan(plan)
    output = " ".join(capsys.readouterr().out.split())
    # Two machines at 36 USD per hour.
    assert "72 USD per hour (prices.json, 2026-11-01), until it is undeployed" in output
    assert account.hosting.names() == {}
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    names = {"id2label": {str(at): str(at) for at in range(3)}}
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, **names}))
    [refusal] = plan_deploy(fields, scratch).refusals
    assert "model cannot be served: its files lack the weights classifier.bias, classifier.weight" in refusal
    assert account.clients["s3"].list_buckets()["Buckets"] == []


def test_all_errors_are_listed(scratch: ScratchState, account: Account) -> None:
    """A run without a tracking database, and a role that does not exist."""
    fields = {"run": "models:/demo@champion", "service": "sagemaker", "machine.instance_type": "ml.g4dn.xlarge"}
    plan = plan_deploy(fields, scratch)
    assert list(plan.refusals) == [
        "--run is 'models:/demo@champion', but the tracking database does not exist yet: train a model first."
    ]
    assert plan.exit_code == 2


@pytest.fixture
def arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arm:
    """An arm on 80 short rows, with state in `home`."""
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    rows = "\n".join(f'{{"text": "text number {number}", "label": "{number % 2}"}}' for number in range(80))
    (tmp_path / "rows.jsonl").write_text(rows)
    experiment = load("demo", {"data.train": str(tmp_path / "rows.jsonl"), "bucket_lengths": "null"})
    return Arm(label="none", experiment=experiment, is_baseline=True)


@pytest.mark.parametrize("service", ["local", "sagemaker"])
def test_fields_that_only_staging_determines_are_marked(
    arm: Arm, tmp_path: Path, account: Account, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.make_role()
    monkeypatch.setattr(stage, "SMALL_BYTES", 0)
    fields = {"service": service, "aws.role": "trainer", "machine.instance_type": "ml.g5.xlarge"}
    changes = fields if service == "sagemaker" else {}
    experiment = load("demo", {**changes, "data.train": str(tmp_path / "rows.jsonl"), "bucket_lengths": "null"})
    arm = Arm(label="none", experiment=experiment, is_baseline=True)
    with scratch_state(tmp_path / "home") as state:
        context = state.open_context(experiment)
        inputs = state.inputs(experiment)
        assert isinstance(inputs, Staged)
        assert inputs.sample_rows == 80
        planned = job("demo-a0r0", "demo", arm, 0, inputs, tmp_path / "home")
        context.check(planned.spec)
        entry = job_entry(planned, arm, inputs, context=context, state=state, earlier=[])
    uri = entry.request["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Uri"]
    assert uri.startswith(f"{NOT_STAGED}/" if service == "sagemaker" else (tmp_path / "home" / "staged").as_uri())
