"""A temporary state folder, in which large data is only estimated."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.dry_runs.plan_jobs import job_entry
from experiments.dry_runs.scratch_state import NOT_STAGED, scratch_state
from experiments.planning.arms import Arm
from experiments.planning.load import load
from experiments.planning.plan import job
from tests.support.aws.account import Account
from training.staging import estimate


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
    monkeypatch.setattr(estimate, "SMALL_BYTES", 0)
    fields = {"service": service, "aws.role": "trainer", "machine.instance_type": "ml.g5.xlarge"}
    changes = fields if service == "sagemaker" else {}
    experiment = load("demo", {**changes, "data.train": str(tmp_path / "rows.jsonl"), "bucket_lengths": "null"})
    arm = Arm(label="none", experiment=experiment, is_baseline=True)
    with scratch_state(tmp_path / "home") as state:
        context = state.open_context(experiment)
        inputs = state.inputs(experiment)
        assert state.sample_rows(inputs) == 80
        planned = job("demo-a0r0", "demo", arm, 0, inputs, tmp_path / "home")
        context.check(planned.spec)
        entry = job_entry(planned, arm, inputs, context=context, state=state, earlier=[])
    lengths = ("HyperParameters.bucket_lengths",)
    assert entry.estimated == (lengths if service == "local" else (*lengths, "InputDataConfig"))
    uri = entry.request["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Uri"]
    assert uri.startswith(f"{NOT_STAGED}/" if service == "sagemaker" else (tmp_path / "home" / "staged").as_uri())
