"""Description of what a script gets, for both services."""

from __future__ import annotations

from typing import Any

from training.contract.job_spec import JobSpec, ScriptEntry
from training.scripts.runtime_description import argument_words, runtime_description

ENTRY = ScriptEntry(flags=True, words=("a b",), secrets={"HF_TOKEN": "hub/token"})


def spec(**fields: Any) -> JobSpec:
    defaults = {
        "name": "job",
        "source_uri": "/source",
        "output_uri": "/out",
        "hyperparameters": {"lr": 20, "cpu": True},
        "channels": {"train": "file:///data"},
        "environment": {"GREETING": "hello", "TRAINFARE_SECRET_VARIABLES": "HF_TOKEN,OTHER"},
    }
    return JobSpec(**{**defaults, **fields})


def test_every_line_of_a_local_job() -> None:
    lines = dict(
        line.split(": ", 1) for line in runtime_description(spec(entry=ENTRY), has_requirements=True, is_metered=True)
    )
    assert lines["Command"] == "python train.py 'a b' --cpu --lr 20"
    assert lines["Working directory"] == "/opt/ml/code, a copy of the script's source"
    assert lines["Channels"] == "/opt/ml/input/data/train (SM_CHANNEL_TRAIN)"
    assert "the model in /opt/ml/model (SM_MODEL_DIR)" in lines["Folders"]
    assert lines["Variables"].startswith("all of SageMaker's training toolkit (SM_...), GREETING=hello, and of this")
    assert "HF_HUB_OFFLINE" in lines["Variables"]
    assert lines["Secrets"] == "HF_TOKEN, OTHER"
    assert lines["requirements.txt"] == "not installed (script.requirements: list)"
    assert "/opt/ml is in the job's folder" in lines["Paths"]
    assert lines["Metrics"].startswith(
        "what it logs to MLflow or TensorBoard (with Trainer: set report_to to mlflow), "
    )


def test_the_packages_of_each_kind_of_job() -> None:
    def packages(**fields: Any) -> str:
        return next(
            line.split(": ", 1)[1]
            for line in runtime_description(
                spec(**fields), has_requirements=fields.get("program") != "none.py", is_metered=True
            )
            if line.startswith("requirements.txt")
        )

    sagemaker = {"instance_type": "ml.g5.xlarge"}
    assert packages(program="none.py") == "the script has none"
    assert (
        packages(environment={"TRAINFARE_PYTHON": "/e/bin/python"}) == "installed in the environment of /e/bin/python"
    )
    assert packages(**sagemaker) == "installed by SageMaker before the script starts"
    assert packages(**sagemaker, program="run.sh").startswith("not installed: SageMaker installs it only for Python")
    assert packages(**sagemaker, program="run.sh", entry=ENTRY).startswith("installed by SageMaker")


def test_other_programs_and_launchers() -> None:
    [command, *_] = runtime_description(
        spec(program="-m pkg", entry=ENTRY, devices=2), has_requirements=False, is_metered=True
    )
    assert command == "Command: python -m pkg 'a b' --cpu --lr 20 (2 processes, started by torchrun)"
    [command, *_] = runtime_description(
        spec(program="run.sh", hyperparameters={}), has_requirements=False, is_metered=True
    )
    assert command == "Command: ./run.sh"

    # Without our entry point, the words are those of the toolkit.
    assert argument_words(spec(hyperparameters={"cpu": True, "b": 1})) == ["-b", "1", "--cpu", "True"]
