"""Test the Hub fields of an experiment: the job and its request contain neither the token nor its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.planning.arms import check_token, without_pushes
from experiments.planning.load import Arm, Experiment, arms, load
from experiments.planning.plan import plan
from tests.support.requests.refused import refused
from tests.support.requests.staged import staged
from training.contract.errors import InputError

PUSH = {"push_to_hub.repository": "someone/a-model"}
TOKEN = "hf_QwErTz1234567890secret"


@pytest.mark.parametrize("fields", [{}, {"push_to_hub.token_secret": "hub/token"}])
def test_a_job_gets_neither_the_token_nor_its_name(
    fields: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    experiment = load("demo", {**PUSH, **fields, "save_model": "true"})
    [job] = plan("g", "demo", [Arm(label="a", experiment=experiment, is_baseline=True)], 1, [staged()], tmp_path)
    assert "TRAINFARE_SECRET_VARIABLES" not in job.spec.environment
    assert not [name for name in job.spec.hyperparameters if name.startswith("push")]
    assert TOKEN not in json.dumps(job.spec.model_dump(mode="json")) + job.experiment_yaml


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"push_to_hub.repository": "no-owner"}, ["push_to_hub.repository", "no-owner"]),
        ({"push_to_hub.repository": "a/b/c"}, ["push_to_hub.repository", "a/b/c"]),
        ({"push_to_hub.token_variable": "MY-TOKEN"}, ["push_to_hub.token_variable", "MY-TOKEN"]),
        ({"save_model": "false"}, ["push_to_hub", "save_model"]),
        ({"push_to_hub.tokn_secret": "x"}, ["push_to_hub.tokn_secret", "push_to_hub.token_secret"]),
        ({"compare.arms": '[{"compiler": "none"}, {"push_to_hub": null}]'}, ["compare.arms[1]", "push_to_hub"]),
    ],
)
def test_an_invalid_push_is_refused(fields: dict[str, str], words: list[str]) -> None:
    sentence = refused("demo", {**PUSH, "save_model": "true", **fields})
    assert [word for word in words if word not in sentence] == []


def test_a_comparison_pushes_nothing_and_logs_it() -> None:
    output: list[str] = []
    without_push = without_pushes(arms(load("demo", {**PUSH, "save_model": "true"})), output.append)
    assert [arm.experiment.push_to_hub for arm in without_push] == [None] * len(without_push)
    assert len(output) == 1
    assert without_pushes(arms(load("demo", {})), output.append) == arms(load("demo", {}))
    assert len(output) == 1


@pytest.mark.parametrize(("variables", "missing"), [({}, True), ({"HF_TOKEN": " "}, True), ({"HF_TOKEN": "x"}, False)])
def test_a_missing_token_is_refused(variables: dict[str, str], missing: bool) -> None:
    experiment: Experiment = load("demo", {**PUSH, "save_model": "true"})
    if missing:
        with pytest.raises(InputError, match="HF_TOKEN"):
            check_token(experiment, variables)
    else:
        check_token(experiment, variables)


def test_a_token_in_a_secret_needs_no_variable() -> None:
    check_token(load("demo", {**PUSH, "push_to_hub.token_secret": "hub", "save_model": "true"}), {})
