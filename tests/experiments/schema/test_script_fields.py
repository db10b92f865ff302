"""Inputs and metrics of a script, as an experiment file states them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from experiments.planning.load import arms, load
from experiments.planning.plan import run_tags
from experiments.schema.experiment import Experiment, logged_hyperparameters, script_hyperparameters
from experiments.schema.sections import Script, declared_scales
from training.contract.errors import InputError

TEXT = """\
script:
  source: code
  arguments: equals
  hyperparameters:
    files: [a, 1, true]
    options: {b: x}
    empty: []
    absent: null
  environment: {HF_EVALUATE_OFFLINE: 1, LOUD: true, NAME: x}
  secrets: [HF_TOKEN, OTHER]
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "own.yaml").write_text(TEXT)
    return str(tmp_path / "own.yaml")


def script(experiment: Experiment) -> Script:
    assert experiment.script is not None
    return experiment.script


def refusal(file: str, overrides: dict[str, str]) -> str:
    with pytest.raises(InputError) as caught:
        load(file, overrides)
    return str(caught.value)


def test_values_of_every_kind_are_read(file: str) -> None:
    own = script(load(file, {}))
    values: dict[str, Any] = {"files": ["a", 1, True], "options": {"b": "x"}, "empty": []}
    assert script_hyperparameters(load(file, {})) == values == logged_hyperparameters(load(file, {}))
    assert own.environment == {"HF_EVALUATE_OFFLINE": "1", "LOUD": "true", "NAME": "x"}
    assert own.secrets == {"HF_TOKEN": None, "OTHER": None}
    assert (own.arguments.style, own.arguments.booleans, own.requirements) == ("equals", "auto", "list")


def test_a_style_stays_when_another_field_of_the_section_is_set(file: str) -> None:
    changed = script(load(file, {"script.arguments.booleans": "flag"}))
    assert changed.arguments.model_dump() == {"style": "equals", "booleans": "flag"}
    assert script(load(file, {"script.arguments": "assign"})).arguments.style == "assign"


def test_the_words_after_the_program_are_its_own(file: str) -> None:
    own = script(load(file, {"script.entry_point": "train.py 'a b' --no-amp"}))
    assert (own.program, own.words) == ("train.py", ("a b", "--no-amp"))
    own = script(load(file, {"script.entry_point": "-m pkg.train config.yaml"}))
    assert (own.program, own.words) == ("-m pkg.train", ("config.yaml",))


def test_secrets_may_be_written_with_commas_or_with_names_of_secrets(file: str) -> None:
    assert script(load(file, {"script.secrets": "A, B"})).secrets == {"A": None, "B": None}
    assert script(load(file, {"script.secrets": "{A: hub/token}"})).secrets == {"A": "hub/token"}


def test_an_arm_sets_a_mapping_as_a_whole(file: str) -> None:
    text = "[{script.hyperparameters.options: {a: 1}}, {script: {hyperparameters: {options: {b: 2}}}}]"
    first, second = arms(load(file, {"compare.arms": text}))
    assert script_hyperparameters(first.experiment)["options"] == {"a": 1}
    assert script_hyperparameters(second.experiment)["options"] == {"b": 2}
    assert [first.label, second.label] == ["options a=1", "options b=2"]


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("script.environment.WANDB_API_KEY", "abcdef", "script.environment.WANDB_API_KEY looks like a secret"),
        ("script.environment.SM_MODEL_DIR", "x", "script.environment.SM_MODEL_DIR uses a reserved prefix: SM_, SAGE"),
        ("script.secrets", "NAME", "script.secrets.NAME is also in script.environment: keep one of them"),
        ("script.entry_point", "train.py 'a", 'script.entry_point "train.py \'a" has an open quote: close it'),
        ("script.entry_point", "train.py --hub_token abc", "script.entry_point looks like a secret"),
        ("script.entry_point", "train.py lr=$lr", "cannot insert fields: pass $NAME through script.hyperparameters"),
        (
            "script.hyperparameters",
            "{x: [[1]]}",
            "script.hyperparameters.x has a list, a mapping or null within its value",
        ),
    ],
)
def test_a_wrong_value_is_refused_in_one_sentence(file: str, field: str, value: str, sentence: str) -> None:
    message = refusal(file, {field: value})
    assert sentence in message
    assert f"(override {field}" in message
    assert "\n" not in message


def test_the_message_for_a_secret_does_not_contain_it(file: str) -> None:
    token = "hf_" + "QwErTz1234567890" * 2
    assert token not in refusal(file, {"script.hyperparameters.hub_token": token})
    Path(file).write_text(TEXT.replace("files: [a, 1, true]", f"files: [{token}]"))
    message = refusal(file, {})
    assert token not in message
    assert message.endswith(f"a secret in AWS Secrets Manager, {{HF_TOKEN: team/hub-token}}) ({file} line 5)")


def test_sagemaker_needs_the_names_of_secrets(file: str) -> None:
    aws = {"service": "sagemaker", "machine.instance_type": "ml.g5.xlarge"}
    assert "script.secrets.HF_TOKEN needs the name of a secret in AWS Secrets Manager" in refusal(file, aws)
    assert script(load(file, {**aws, "script.secrets": "{A: hub/token}"})).secrets == {"A": "hub/token"}


def of_metrics(**metrics: Any) -> Experiment:
    return Experiment.model_validate({"script": {"source": "code", "metrics": metrics}})


def test_a_metric_is_an_expression_or_a_mapping() -> None:
    script = of_metrics(
        loss="loss (.*)", f1={"pattern": "f1 (.*)", "unit": "fraction", "better": "higher"}, eval_f1={"unit": "percent"}
    ).script
    assert script is not None
    assert script.patterns == {"loss": "loss (.*)", "f1": "f1 (.*)"}
    assert declared_scales(script.metrics) == {
        "f1": {"unit": "fraction", "better": "higher"},
        "eval_f1": {"unit": "percent"},
    }


def test_the_declarations_are_a_tag_of_the_run() -> None:
    tags = run_tags(of_metrics(f1={"pattern": "f1 (.*)", "unit": "fraction", "better": "higher"}))
    assert tags == {"platform.metric_scales": '{"f1": {"unit": "fraction", "better": "higher"}}'}
    assert run_tags(of_metrics(loss="loss (.*)")) == {}


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"f1": {}}, "script.metrics.f1 is empty: it needs a pattern, or a unit and a direction"),
        ({"f1": {"unit": "fraction"}}, "add better: higher or better: lower"),
        ({"eval_loss": {"better": "higher"}}, "better is 'higher', but lower values of eval_loss are better"),
        ({"step": {"pattern": "(.*)", "unit": "number", "better": "lower"}}, "it takes only a pattern"),
        ({"f1": {"pattern": "f1 (.*)", "unit": "points"}}, "'fraction', 'percent' or 'number'"),
    ],
)
def test_a_wrong_declaration_is_refused(metrics: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match="script") as error:
        of_metrics(**metrics)
    assert message in str(error.value)
