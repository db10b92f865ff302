"""Which jobs log their models, and that logging does not change the training."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.planning.arms import Arm
from experiments.planning.load import load
from experiments.planning.plan import group_key, plan
from experiments.schema.experiment import Experiment
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


def test_true_means_each_as_in_earlier_versions(tmp_path: Path) -> None:
    assert job(tmp_path, log_model="true").model == ModelPlan(keeps="each")


@pytest.mark.parametrize(
    "fields",
    [
        {"log_model": "none"},
        {"log_model": "false"},
        {"save_model": "false"},
        {"calibration.batch_sizes": "[8, 16]"},
        {"probe.precision": "0.1"},
    ],
)
def test_a_model_that_is_not_saved_or_not_to_be_logged_has_no_plan(tmp_path: Path, fields: dict[str, str]) -> None:
    assert job(tmp_path, **fields).model is None


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


def test_switching_logging_off_resumes_the_same_jobs() -> None:
    keys = {
        group_key("train", "demo", [arm(log_model=log_model)], 1, [staged()]) for log_model in ("best", "each", "none")
    }
    assert len(keys) == 1
    assert group_key("train", "demo", [arm(save_model="false")], 1, [staged()]) not in keys


def test_more_repeats_are_another_group() -> None:
    keys = {group_key("compare", "demo", [arm()], repeats, [staged()]) for repeats in (2, 3)}
    assert len(keys) == 2
