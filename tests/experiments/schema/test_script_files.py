"""Configuration files of a script, as an experiment states them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.planning.inputs import script_inputs
from experiments.planning.load import arms, load
from experiments.planning.plan import plan
from experiments.schema.experiment import logged_hyperparameters, script_files
from training.contract.errors import InputError

TEXT = """\
script:
  source: code
  files:
    config.yaml:
      micro_batch_size: $batch_size
      optimizer: {betas: [$adam_beta1, 0.95], lr: $learning_rate}
      price: $$5
      seed: $seed
      resume: null
    conf/notes.txt: of $batch_size
base_learning_rate: 3.0e-5
base_batch_size: 16
batch_size: 32
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print('loss 0.5')")
    (tmp_path / "own.yaml").write_text(TEXT)
    return str(tmp_path / "own.yaml")


def test_values_in_a_file_take_fields_of_the_experiment(file: str) -> None:
    # 3e-5 at 16, linearly: 6e-5 at 32.
    config = {
        "micro_batch_size": 32,
        "optimizer": {"betas": [0.9, 0.95], "lr": pytest.approx(6e-5)},
        "price": "$5",
        "seed": 42,
        "resume": None,
    }
    files = {"config.yaml": config, "conf/notes.txt": "of $batch_size"}
    assert script_files(load(file, {})) == files
    # Runs and reports use the experiment's names.
    assert logged_hyperparameters(load(file, {})) == {
        "batch_size": 32,
        "adam_beta1": 0.9,
        "config.yaml.optimizer.betas.1": 0.95,
        "learning_rate": pytest.approx(6e-5),
        "config.yaml.price": "$5",
        "seed": 42,
        "config.yaml.resume": None,
        "conf/notes.txt": "of $batch_size",
    }


def test_arms_set_single_values_of_a_file(file: str) -> None:
    text = """[
        {batch_size: 32},
        {script.files.config.yaml.lora.rank: 8},
        {script: {files: {config.yaml: {optimizer: {eps: 1, extra: {a.b: 2}}}}}},
    ]"""
    first, second, third = arms(load(file, {"compare.arms": text}))
    # A mapping whose keys contain dots is set as a whole.
    assert [second.label, third.label] == ["lora.rank 8", "optimizer.eps 1, optimizer.extra a.b=2"]
    contents: Any = [script_files(each.experiment)["config.yaml"] for each in (first, second, third)]
    assert contents[1] == {**contents[0], "lora": {"rank": 8}}
    changed = {"eps": 1, "extra": {"a.b": 2}}
    assert contents[2] == {**contents[0], "optimizer": contents[0]["optimizer"] | changed}


def test_a_command_line_sets_a_value_of_a_file(file: str) -> None:
    changed: Any = script_files(load(file, {"script.files.config.yaml.optimizer.eps": "1e-3"}))
    assert changed["config.yaml"]["optimizer"].items() > {"betas": [0.9, 0.95], "eps": 1e-3}.items()


def test_each_repeat_gets_the_file_with_its_own_seed(file: str, tmp_path: Path) -> None:
    experiment = load(file, {"compare.arms": "[{script.files.config.yaml.optimizer: {lr: $learning_rate}}]"})
    (tmp_path / "code" / "config.yaml").write_text("of the source")
    inputs = script_inputs(experiment, tmp_path / "home")
    assert any("script.files.config.yaml replaces the file of this name in" in note for note in inputs.notes())
    jobs = plan("g", "own", arms(experiment), 2, [inputs], tmp_path / "home")
    written: list[Any] = [each.spec.entry.files["config.yaml"] for each in jobs if each.spec.entry]
    assert [each["seed"] for each in written] == [42, 43]
    assert jobs[0].settings["script.files.config.yaml.optimizer.lr"] == str(written[0]["optimizer"]["lr"])
    # Repeats share what was compiled; settings do not.
    other = load(file, {"script.files.config.yaml.resume": "yes"})
    [third] = plan("g", "own", arms(other), 1, [inputs], tmp_path / "home")
    caches = [each.spec.environment["TORCHINDUCTOR_CACHE_DIR"] for each in (*jobs, third)]
    assert caches[0] == caches[1] != caches[2]


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("config.yaml.lr", "$learning_rat", "script.files.config.yaml.lr refers to $learning_rat, which is not a fie"),
        ("config.yaml.hub_token", "abc", "script.files.config.yaml looks like a secret"),
        ("conf/notes.txt", "x hf_" + "QwErTz1234567890" * 2, "script.files.conf/notes.txt looks like a secret"),
        ("../config.yaml", "x", "script.files.../config.yaml must be a path within the script's folder"),
        ("/opt/ml/code/config.yaml", "x", "must be a path within the script's folder, such as conf/train.yaml"),
        ("config.ini", "1", "script.files.config.ini must be a text, or end in .yaml, .yml, .json or .toml"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(file: str, field: str, value: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        load(file, {f"script.files.{field}": value})
    message = str(caught.value)
    assert sentence in message
    assert message.count("QwErTz") == message.count("\n") == 0
