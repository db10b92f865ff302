"""From trainings to registered models: the winner of a comparison, a better model and a worse one."""

from __future__ import annotations

import subprocess
import sys

import pytest
from mlflow import MlflowClient

from tests.conftest import ROOT
from tests.end_to_end.conftest import CommandLine, text

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ASK = """
import sys
from models.logged.model_folder import model_folder
from models.lookup.trained_model import trained_model
from tracking.server.store import open_store
from training.state.home import home
store = open_store()
folder = model_folder(store, trained_model(store, sys.argv[1]), home())
from transformers import pipeline
print("answer", pipeline("text-classification", str(folder))("das war wirklich wunderbar")[0]["label"])
"""
KEPT = {"save_model": "true"}
NOTHING_LEARNT = {"base_learning_rate": 1e-9}


def answer(command_line: CommandLine, name: str) -> str:
    """Return a model's answer to a positive text."""
    command = [sys.executable, "-c", ASK, name]
    done = subprocess.run(command, cwd=ROOT, env=command_line.environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("answer ")[2].strip()


def aliases(command_line: CommandLine) -> dict[str, str]:
    versions = MlflowClient(command_line.uri, registry_uri=command_line.uri).get_registered_model("demo").aliases
    return {name: str(version) for name, version in versions.items()}


def test_only_a_better_model_replaces_the_registered_one(
    command_line: CommandLine, pretrained_reviews: dict[str, object]
) -> None:
    """The better model trained on more rows. Both are evaluated on the same rows."""
    done = command_line("train", {**pretrained_reviews, **KEPT, **NOTHING_LEARNT, "data.train_rows": 40})
    assert done.returncode == 0, done.stdout + done.stderr
    done = command_line("register", {"experiment": "demo"})
    assert done.returncode == 0, done.stderr
    assert "as version 1 of demo, and gave it the alias champion. Evaluation: eval_accuracy " in text(done)

    arms = '[{"compiler": "none"}, {"compiler": "none", "batch_size": 16}]'
    learns = {"base_learning_rate": 4e-3, "epochs": 3, "compare.arms": arms, "compare.repeats": 1}
    done = command_line("compare", {**pretrained_reviews, **KEPT, **learns})
    assert done.returncode == 0, done.stdout + done.stderr
    group = command_line.runs("group")[-1].data.tags["platform.group"]
    done = command_line.by_mlflow("register", {"group": group})
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Winner of group {group}: No setting is shown to be cheaper than" in text(done)
    assert "gave it the alias champion, which was version 1 of demo's" in text(done)
    assert aliases(command_line) == {"champion": "2"}
    assert answer(command_line, "models:/demo@champion") == "gut & schön"
    first, baseline, _ = command_line.runs()
    assert first.data.tags["platform.data_key"] != baseline.data.tags["platform.data_key"]

    done = command_line("register", {"run": first.info.run_id})
    assert done.returncode == 1, done.stdout
    assert f"(run {first.info.run_id}) is worse: eval_accuracy " in done.stderr
    assert " of version 2 of demo (champion). To accept it anyway, use --allow worse.\n" in done.stderr
