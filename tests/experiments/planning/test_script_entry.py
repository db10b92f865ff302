"""Jobs of a script: which need our entry point, and what their requests contain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.planning.arms import Arm
from experiments.planning.inputs import ScriptInputs, script_inputs
from experiments.planning.load import load
from experiments.planning.plan import plan
from tracking.groups.planned_job import PlannedJob
from training.contract.errors import InputError
from training.contract.request import build
from training.scripts.runtime_description import argument_words
from training.services.local import toolkit

TRAIN = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--cpu", action="store_true")
parser.add_argument("--lr", type=float)
"""
SAGEMAKER = {"service": "sagemaker", "machine.instance_type": "ml.g5.xlarge"}


def prepared(
    tmp_path: Path, script: str, overrides: dict[str, str] | None = None, variables: dict[str, str] | None = None
) -> tuple[PlannedJob, ScriptInputs]:
    """Return the job of a script with these fields, and its inputs."""
    code = tmp_path / "code"
    if not code.exists():
        for name, text in {"train.py": TRAIN, "pkg/train.py": "", "run.sh": "", "requirements.txt": "torch"}.items():
            (code / name).parent.mkdir(parents=True, exist_ok=True)
            (code / name).write_text(text)
    (tmp_path / "own.yaml").write_text(f"script: {{source: code, {script}}}")
    experiment = load(str(tmp_path / "own.yaml"), overrides or {})
    inputs = script_inputs(experiment, tmp_path / "home", variables=variables or {})
    arm = Arm(label="a", experiment=experiment, is_baseline=True)
    return plan("g", "own", [arm], 1, [inputs], tmp_path / "home")[0], inputs


def test_plain_arguments_leave_the_request_as_the_sdk_sends_it(tmp_path: Path) -> None:
    job, inputs = prepared(tmp_path, "hyperparameters: {lr: 0.1, do_train: true}, arguments: {booleans: value}")
    assert inputs.entry is None
    assert build(job.spec)["HyperParameters"]["sagemaker_program"] == '"train.py"'
    assert "sagemaker_trainfare_entry" not in build(job.spec)["HyperParameters"]
    assert not (inputs.source.folder / "trainfare_entry.py").exists()
    assert inputs.notes() == []


def test_other_arguments_are_encoded_as_the_sdk_does_and_passed_by_our_entry_point(tmp_path: Path) -> None:
    job, inputs = prepared(tmp_path, "entry_point: train.py 'a b', arguments: {booleans: flag}, "
                                     "hyperparameters: {cpu: true, files: [a, 1], options: {a: 1}}")  # fmt: skip
    encoded = build(job.spec)["HyperParameters"]
    assert {name: encoded[name] for name in ("cpu", "files", "options")} == {
        "cpu": "true",
        "files": '["a", 1]',
        "options": '{"a": 1}',
    }
    assert encoded["sagemaker_program"] == '"trainfare_entry.py"'
    settings = {"program": "train.py", "flags": True, "words": ["a b"]}
    assert json.loads(encoded["sagemaker_trainfare_entry"]) == settings
    assert toolkit.user_hyperparameters(toolkit.decoded(encoded)).keys() == {"cpu", "files", "options"}
    assert (inputs.source.folder / "trainfare_entry.py").exists()


@pytest.mark.parametrize(
    "text",
    ['("--amp", action="store_true")', "('--amp', action=argparse.BooleanOptionalAction)", '("--amp", type=bool)'],
)
def test_a_boolean_of_a_script_that_may_declare_flags_needs_its_form(tmp_path: Path, text: str) -> None:
    prepared(tmp_path, "entry_point: run.sh")
    (tmp_path / "code" / "train.py").write_text(f"parser.add_argument{text}")
    with pytest.raises(InputError) as caught:
        prepared(tmp_path, "hyperparameters: {amp: false}")
    assert str(caught.value).startswith(
        "script.hyperparameters.amp is true or false, and train.py may declare flags: set"
    )
    for form, words in {"flag": [], "value": ["--amp", "False"]}.items():
        job, _ = prepared(tmp_path, f"hyperparameters: {{amp: false}}, arguments: {{booleans: {form}}}")
        assert argument_words(job.spec) == words


def test_modules_inner_files_of_packages_and_shell_scripts(tmp_path: Path) -> None:
    assert prepared(tmp_path, "entry_point: -m pkg.train")[1].entry is not None
    assert prepared(tmp_path, "entry_point: pkg/train.py")[1].entry is None
    assert prepared(tmp_path, "entry_point: run.sh")[1].entry is None
    # SageMaker's toolkit installs requirements.txt only for Python files: our entry point is one.
    assert prepared(tmp_path, "entry_point: run.sh, requirements: install", SAGEMAKER)[1].entry is not None
    (tmp_path / "code" / "setup.py").touch()
    assert prepared(tmp_path, "entry_point: train.py")[1].entry is None
    assert prepared(tmp_path, "entry_point: pkg/train.py")[1].entry is not None


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("entry_point: run.sh", "'run.sh' is not a Python file, and the launcher of several processes starts only"),
        ("entry_point: train.py, directory: inner", "contains a setup.py, and the launcher of several processes"),
    ],
)
def test_programs_that_a_launcher_cannot_start_are_refused(tmp_path: Path, script: str, message: str) -> None:
    prepared(tmp_path, "entry_point: run.sh")
    (tmp_path / "code" / "inner").mkdir()
    for name in ("setup.py", "train.py"):
        (tmp_path / "code" / "inner" / name).touch()
    with pytest.raises(InputError) as caught:
        prepared(tmp_path, script, {"machine.devices": "2"})
    assert message in str(caught.value)


def test_variables_reach_the_job_and_secrets_only_by_name(tmp_path: Path) -> None:
    fields = "environment: {GREETING: hello, MALLOC_TOP_PAD_: 1}, secrets: {HF_TOKEN: hub/token}"
    job, inputs = prepared(tmp_path, fields, variables={"HF_TOKEN": "v3ry-secret"})
    assert job.spec.environment["GREETING"] == "hello"
    assert job.spec.environment["MALLOC_TOP_PAD_"] == "1"  # the user's value wins
    assert job.spec.environment["TRAINFARE_SECRET_VARIABLES"] == "HF_TOKEN"
    assert inputs.entry is None
    assert "v3ry-secret" not in json.dumps(build(job.spec)) + job.experiment_yaml
    with pytest.raises(InputError, match=r"script\.secrets\.HF_TOKEN: the environment variable HF_TOKEN is not set"):
        prepared(tmp_path, fields)


def test_on_sagemaker_the_job_reads_the_secret_itself(tmp_path: Path) -> None:
    job, _ = prepared(tmp_path, "secrets: {HF_TOKEN: hub/token}", SAGEMAKER, {"HF_TOKEN": "v3ry-secret"})
    request = build(job.spec)
    assert "TRAINFARE_SECRET_VARIABLES" not in request["Environment"]
    settings = json.loads(request["HyperParameters"]["sagemaker_trainfare_entry"])
    assert settings == {"program": "train.py", "secrets": {"HF_TOKEN": "hub/token"}}
