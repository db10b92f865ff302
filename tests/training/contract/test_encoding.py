"""Hyperparameters of scripts have the encoding of SageMaker's SDK, and reach the script with their values.

The golden texts are those of SDK v2 (2.257.7): `EstimatorBase._json_encode_hyperparameters` in `estimator.py` applies
`json.dumps(value)` without options to each value, whatever its type, and `str` to each name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.planning.arms import Arm
from experiments.planning.inputs import script_inputs
from experiments.planning.load import load
from experiments.planning.plan import plan
from training.contract.errors import InputError
from training.contract.job_spec import JobSpec
from training.contract.request import build
from training.services.local import toolkit

GOLDEN: dict[str, tuple[Any, str]] = {
    "text": ("a b", '"a b"'),
    "quotes": ('it\'s "here"', '"it\'s \\"here\\""'),
    "unicode": ("é\N{GRINNING FACE}", '"\\u00e9\\ud83d\\ude00"'),
    "lines": ("a\nb", '"a\\nb"'),
    "empty": ("", '""'),
    "whole": (3, "3"),
    "rate": (4.875e-05, "4.875e-05"),
    "large": (1e22, "1e+22"),
    "yes": (True, "true"),
    "no": (False, "false"),
    "list": (["a", 1, True, None, [0.5]], '["a", 1, true, null, [0.5]]'),
    "none": ([], "[]"),
    "map": ({"b": {"c": [None]}, "a": 1}, '{"b": {"c": [null]}, "a": 1}'),
    "digits": ("1", '"1"'),
    "word": ("null", '"null"'),
}
"""Hyperparameter to (its value, the text that the SDK sends)."""


@pytest.fixture
def request_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that builds the request of a script with these hyperparameters, by an experiment file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("")

    def make(hyperparameters: dict[str, Any]) -> dict[str, Any]:
        path = tmp_path / "own.yaml"
        script = {"source": "code", "hyperparameters": hyperparameters}
        path.write_text(json.dumps({"script": script}, ensure_ascii=False))
        experiment = load(str(path), {})
        arm = Arm(label="alone", experiment=experiment, is_baseline=True)
        [job] = plan("group", "own", [arm], 1, [script_inputs(experiment, tmp_path / "home")], tmp_path / "home")
        return build(job.spec)

    return make


def test_every_kind_of_value_is_encoded_as_by_the_sdk() -> None:
    values = {name: value for name, (value, _) in GOLDEN.items()}
    spec = JobSpec(name="job", hyperparameters=values, channels={}, source_uri="/source", output_uri="/out")
    sent = {name: text for name, text in build(spec)["HyperParameters"].items() if name in GOLDEN}
    assert sent == {name: text for name, (_, text) in GOLDEN.items()}
    assert toolkit.decoded(sent) == {name: value for name, (value, _) in GOLDEN.items()}


def test_null_leaves_an_argument_out_and_is_null_in_a_request(request_of: Any) -> None:
    """The SDK would send `null`, which the toolkit passes as an empty text; see docs/scripts.md for ours."""
    assert "name" not in request_of({"name": None, "other": 1})["HyperParameters"]
    spec = JobSpec(name="job", hyperparameters={"name": None}, channels={}, source_uri="/source", output_uri="/out")
    hyperparameters = build(spec)["HyperParameters"]
    assert hyperparameters["name"] == "null"
    assert toolkit.arguments({"name": toolkit.decoded(hyperparameters)["name"]}) == ["--name", ""]


@pytest.mark.parametrize("value", [[float("nan")], {"a": {"b": float("inf")}}])
def test_values_that_are_not_json_are_refused_at_any_depth(value: Any) -> None:
    spec = JobSpec(name="job", hyperparameters={"h": value}, channels={}, source_uri="/source", output_uri="/out")
    with pytest.raises(InputError, match=r"Hyperparameter 'h' is (nan|inf); it must be a finite number"):
        build(spec)
