"""The models that a group keeps in MLflow, and the artifacts that are deleted then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from mlflow.entities import Run

from models.logged.log_model import delete_artifacts, kept_runs, log_models
from models.trained_model import find_artifact_location, trained_model_of
from tests.support.models.made_models import job_run, packed, planned_job
from tests.support.models.place import Place
from tracking.groups.group import Group
from tracking.groups.planned_job import ScriptPlan
from tracking.recording.recorder import Outcome
from training.contract.errors import InputError
from training.contract.failures import Failure

Rule = Literal["best", "winner", "each"]

ACCURACIES = {"none-0": 0.8, "none-1": 0.9, "inductor-0": 0.95, "inductor-1": 0.7}


class Jobs:
    """The completed jobs of a comparison of two arms, each with its artifact."""

    def __init__(self, place: Place, model: Path, rule: Rule) -> None:
        self.place, self.home, self.rule = place, place.folder / "home", rule
        self.group = Group("g", "parent", place.experiment_id, continued=True)
        self.runs = {name: self._run(name, accuracy, model) for name, accuracy in ACCURACIES.items()}

    def _run(self, name: str, accuracy: float, model: Path) -> Run:
        archive = packed(model, self.home / "outputs" / name / "output" / "model.tar.gz")
        arm = name.partition("-")[0]
        tags = {"arm": arm, "platform.baseline": str(arm == "none").lower()}
        run = job_run(self.place.client, self.place.experiment_id, archive, name, tags)
        self.place.client.log_metric(run.info.run_id, "eval_accuracy", accuracy)
        return run

    def outcomes(self, failed: str = "", **fields: object) -> list[Outcome]:
        made = []
        for name, run in self.runs.items():
            plan = planned_job(self.place.folder / "plans", name, arm=name.partition("-")[0], **fields)
            assert plan.model is not None
            plan = replace(plan, model=replace(plan.model, keeps=self.rule))
            failure = Failure("Error", "it failed") if name == failed else None
            made.append(Outcome(planned=plan, run_id=str(run.info.run_id), failure=failure))
        return made

    def close(self, **fields: object) -> list[str]:
        """Do what a command does when all jobs have ended, and return what it says about deleted artifacts."""
        outcomes, place = self.outcomes(**fields), self.place
        log_models(place.store, place.service, self.group, outcomes, place.scratch, place.messages.append)
        lines: list[str] = []
        delete_artifacts(place.store, self.group, outcomes, self.home, lines.append)
        return lines

    @property
    def artifacts(self) -> list[str]:
        return sorted(path.name for path in (self.home / "outputs").iterdir())

    @property
    def logged(self) -> list[str]:
        names = {str(run.info.run_id): name for name, run in self.runs.items()}
        return sorted(names[run_id] for _, run_id, _ in self.place.models)


@pytest.fixture
def jobs_of(place: Place, model_of: Callable[[str], Path]) -> Callable[[Rule], Jobs]:
    def make(rule: Rule) -> Jobs:
        (place.folder / "plans").mkdir()
        return Jobs(place, model_of("classification"), rule)

    return make


def names_of(jobs: Jobs, run_ids: set[str]) -> set[str]:
    return {name for name, run in jobs.runs.items() if run.info.run_id in run_ids}


def test_the_best_repeat_of_each_arm_is_logged_and_every_artifact_deleted(jobs_of: Callable[[Rule], Jobs]) -> None:
    jobs = jobs_of("best")
    [line] = jobs.close()
    assert line.startswith("Deleted 4 model artifacts (")
    assert jobs.logged == ["inductor-0", "none-1"]
    assert jobs.artifacts == []
    tags = jobs.place.again(jobs.runs["none-0"]).data.tags
    assert "platform.model_uri" not in tags
    assert tags["platform.model_deleted"].endswith("none-0/output/model.tar.gz")
    trained = trained_model_of(jobs.place.store, jobs.place.again(jobs.runs["none-0"]))
    with pytest.raises(InputError, match=r"its files were deleted on 20..-..-..; a comparison keeps the best model"):
        find_artifact_location(jobs.place.store, trained)
    assert jobs.close() == []  # as `attach` does later
    assert jobs.logged == ["inductor-0", "none-1"]


def test_each_model_is_logged_if_the_group_keeps_each(jobs_of: Callable[[Rule], Jobs]) -> None:
    jobs = jobs_of("each")
    jobs.close()
    assert (jobs.logged, jobs.artifacts) == (sorted(ACCURACIES), [])


def test_a_failed_job_is_never_the_best_and_keeps_its_artifact(jobs_of: Callable[[Rule], Jobs]) -> None:
    jobs = jobs_of("best")
    jobs.close(failed="inductor-0")
    assert (jobs.logged, jobs.artifacts) == (["inductor-1", "none-1"], ["inductor-0"])


def test_artifacts_of_scripts_stay(jobs_of: Callable[[Rule], Jobs]) -> None:
    jobs = jobs_of("best")
    jobs.close(script=ScriptPlan(regexes={}, hyperparameters={}))
    assert (jobs.logged, jobs.artifacts) == (["inductor-0", "none-1"], sorted(ACCURACIES))


def test_nothing_is_deleted_while_a_kept_model_is_missing(jobs_of: Callable[[Rule], Jobs]) -> None:
    jobs = jobs_of("best")
    (jobs.home / "outputs" / "none-1" / "output" / "model.tar.gz").write_bytes(b"damaged")
    assert jobs.close() == []
    assert "The model of job none-1 was not logged" in jobs.place.messages[0]
    assert jobs.artifacts == sorted(ACCURACIES)


def test_without_a_winner_the_best_of_each_arm_are_kept(jobs_of: Callable[[Rule], Jobs]) -> None:
    """The jobs have no costs, so the verdict names no cheaper arm and the baseline's best job wins."""
    jobs = jobs_of("winner")
    assert names_of(jobs, kept_runs(jobs.place.store, jobs.group, jobs.outcomes())) == {"none-1"}
    for run in jobs.runs.values():
        jobs.place.client.set_tag(run.info.run_id, "platform.baseline", "false")
    kept = names_of(jobs, kept_runs(jobs.place.store, jobs.group, jobs.outcomes()))
    assert kept == {"none-1", "inductor-0"}
