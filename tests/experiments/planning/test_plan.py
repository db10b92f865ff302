"""Planned jobs: models to log, keys of groups, and what a script's arguments say about its batches."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.planning.inputs import samples_per_step
from experiments.planning.load import Arm, load
from experiments.planning.load import arms as arms_of
from experiments.planning.plan import group_key, plan
from experiments.schema.experiment import Experiment
from experiments.sweeping.sweep_plan import SweepJobs, plan_sweep
from sweeps.search_space import Point
from tests.support.requests.staged import staged
from tracking.groups.planned_job import ModelPlan, PlannedJob


def arm(name: str = "demo", **fields: str) -> Arm:
    experiment: Experiment = load(name, fields)
    return Arm(label="a", experiment=experiment, is_baseline=True)


def job(folder: Path, name: str = "demo", **fields: str) -> PlannedJob:
    [planned] = plan("g", name, [arm(name, **fields)], 1, [staged()], folder)
    return planned


def test_the_best_models_are_logged_by_default(tmp_path: Path) -> None:
    assert job(tmp_path).model == ModelPlan(keeps="best")
    assert job(tmp_path, log_model="winner").model == ModelPlan(keeps="winner")
    assert job(tmp_path, log_model="each").model == ModelPlan(keeps="each")


def test_a_model_that_is_not_saved_or_not_to_be_logged_has_no_plan(tmp_path: Path) -> None:
    for name, text in (("log_model", "none"), ("save_model", "false")):
        assert job(tmp_path, **{name: text}).model is None
    assert job(tmp_path, **{"calibration.batch_sizes": "[8, 16]"}).model is None
    assert job(tmp_path, **{"probe.precision": "0.1"}).model is None


def test_the_plan_records_options_that_the_model_files_lack(tmp_path: Path) -> None:
    assert job(tmp_path, **{"data.columns.text_pair": "reply"}).model == ModelPlan(keeps="best", is_of_pairs=True)
    model_plan = job(tmp_path, "squad-minilm", doc_stride="32", max_length="96").model
    assert model_plan is not None
    assert dict(model_plan.answering) == {
        "max_length": 96,
        "doc_stride": 32,
        "n_best_answers": 20,
        "max_answer_length": 30,
    }


def test_a_later_group_has_other_seeds_unless_the_user_set_them(tmp_path: Path) -> None:
    for fields, seeds in (({}, [2_042, 2_043]), ({"seed": "42"}, [42, 43])):
        jobs = plan("g", "demo", [arm(**fields)], 2, [staged()], tmp_path, seed_offset=2_000)
        assert [each.spec.hyperparameters["seed"] for each in jobs] == seeds
    sweep = SweepJobs("demo", plan_sweep(load("demo", {"target.value": "0.5", "target.metric": "eval_loss"})), staged())
    later = replace(sweep, seed_offset=2_000)
    trial, second = later.trial("g", "none", Point(8)), later.second_training("g", "none", Point(8))
    repeats = later.confirmation("g", [("none", Point(8))])
    assert [each.spec.hyperparameters["seed"] for each in (trial, second, *repeats[:2])] == [2_042, 3_043, 2_043, 2_044]
    assert later.key == sweep.key


def test_switching_logging_off_resumes_the_same_jobs() -> None:
    keys = {
        group_key("train", "demo", [arm(log_model=log_model)], 1, [staged()]) for log_model in ("best", "each", "none")
    }
    assert len(keys) == 1
    assert group_key("train", "demo", [arm(save_model="false")], 1, [staged()]) not in keys


def test_more_repeats_are_another_group() -> None:
    keys = {group_key("compare", "demo", [arm()], repeats, [staged()]) for repeats in (2, 3)}
    assert len(keys) == 2


def test_a_key_has_the_names_of_arms_but_not_how_settings_are_written() -> None:
    def key(arms: str) -> str:
        planned = arms_of(load("demo", {"compare.arms": arms, "compare.baseline": ""}))
        return group_key("compare", "demo", planned, 2, [staged(), staged()])

    assert key("[{}, {batch_size: 64}]") == key("[{batch_size: 32}, {batch_size: 64}]")
    assert len({key(f"{{{name}: {{}}, b: {{batch_size: 64}}}}") for name in ("a", "c")}) == 2


def test_a_job_has_the_values_of_all_fields_that_any_arm_sets(tmp_path: Path) -> None:
    text = "{a: {}, b: {packing: false, machine: {cores: 1}, target: {metric: eval_loss, value: 2.5}}}"
    first, second = arms_of(load("demo", {"compare.arms": text, "compare.baseline": "", "task": "causal-lm"}))
    settings = [plan("g", "demo", [each], 1, [staged()], tmp_path)[0].settings for each in (first, second)]
    assert settings[0] == dict.fromkeys(("packing", "machine.cores", "target.metric", "target.value"), "None")
    assert settings[1] == {
        "packing": "False",
        "machine.cores": "1",
        "target.metric": "eval_loss",
        "target.value": "2.5",
    }


def test_a_job_does_not_get_the_token_of_a_push(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_QwErTz1234567890secret")
    planned = job(tmp_path, **{"push_to_hub.repository": "someone/a-model"})
    assert "TRAINFARE_SECRET_VARIABLES" not in planned.spec.environment
    assert not [name for name in planned.spec.hyperparameters if name.startswith("push")]
    assert "hf_QwErTz" not in json.dumps(planned.spec.model_dump(mode="json")) + planned.experiment_yaml


@pytest.mark.parametrize(("declared", "samples"), [(None, None), (7, 7), ("$global_batch_size", 16)])
def test_the_samples_of_a_step_may_be_declared(declared: Any, samples: int | None) -> None:
    script = {"source": "code", "hyperparameters": {"bs": "$batch_size"}, "samples_per_step": declared}
    machine = {"devices": 2, "cores": 2}
    experiment = Experiment.model_validate({"script": script, "batch_size": 8, "machine": machine})
    assert samples_per_step(experiment) == samples
