"""Commands on runs and state that an earlier version wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import CommandLine
from tests.support.answers import checked
from tests.support.earlier import COMPARISON, OPEN_TRAINING, WHOLE, unpack


def test_a_training_whose_launcher_left_is_reported_pruned_and_completed(command_line: CommandLine) -> None:
    unpack(command_line.folder)
    done = command_line("report", {"group": COMPARISON, "format": "json"})
    assert done.returncode == 0, done.stderr
    written = next(command_line.folder.glob("mlruns/1/*/artifacts/report/summary.json"))
    assert json.loads(done.stdout)["arms"] == json.loads(written.read_text())["arms"]
    done = command_line.jobs("prune", "--yes", "--older-than", "0h")
    assert done.returncode == 0, done.stdout + done.stderr
    left = sorted(path.name for path in (command_line.folder / "home" / "jobs").iterdir() if path.is_dir())
    assert left == [f"{OPEN_TRAINING}-none-a0r0"], "of an open group, whose end has not been recorded yet"
    done = command_line("attach", {"group": OPEN_TRAINING})
    assert done.returncode == 0, done.stderr
    statuses = {run.data.tags["platform.job_name"]: run.info.status for run in command_line.runs()}
    assert statuses[f"{OPEN_TRAINING}-none-a0r0"] == "FINISHED"
    assert len(statuses) == 5


@pytest.fixture
def whole(command_line: CommandLine) -> CommandLine:
    """The command line on the state with groups of every kind, an endpoint and logged models."""
    unpack(command_line.folder, WHOLE)
    return command_line


def group_id(whole: CommandLine, name: str) -> str:
    """Return the id of the group of an experiment."""
    [run] = [run for run in whole.runs("group") if run.data.tags["platform.experiment"] == name]
    return str(run.data.tags["platform.group"])


def written_summary(folder: Path, group: str) -> dict[str, Any]:
    """Return the summary that the earlier version logged with the group's report."""
    written = (json.loads(path.read_text()) for path in folder.glob("mlruns/*/*/artifacts/report/summary.json"))
    [summary] = [each for each in written if each["group"] == group]
    return dict(summary)


def assert_same(new: Any, old: Any, place: str = "") -> None:
    """Compare all that both have. A later version may leave figures out, and add others."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() & new.keys():
            assert_same(new[key], old[key], f"{place}.{key}")
    elif isinstance(old, list) and isinstance(new, list):
        assert len(new) == len(old), place
        for at, (mine, other) in enumerate(zip(new, old, strict=True)):
            assert_same(mine, other, f"{place}[{at}]")
    elif isinstance(old, float):
        assert new == pytest.approx(old, rel=1e-9), place
    else:
        assert new == old, place


FIGURES = ("headline", "paid_instance_seconds", "arms")
SWEEP_FIGURES = ("best", "trials", "spent", "spent_on_trials", "confirmation")


OF_GROUP = {
    "classes": ("comparison", (*FIGURES, "contrasts")),
    "loop": ("training", FIGURES),
    "questions": ("training", FIGURES),
    "search": ("search", SWEEP_FIGURES),
}
"""Schema of the answer, and figures of the report, of each group."""


def assert_reported_as_before(whole: CommandLine, name: str, schema: str, figures: tuple[str, ...]) -> None:
    group = group_id(whole, name)
    old = written_summary(whole.folder, group)
    done = whole("report", {"group": group, "format": "json"})
    assert done.returncode == 0, done.stderr
    new = checked(schema, done.stdout)
    assert set(figures) <= new.keys()
    # Headlines are worded anew: a pair of single jobs has no verdict, and a sweep's names repeats alone.
    assert_same(new, {name: value for name, value in old.items() if name != "headline"})
    for mine, other in zip(new.get("arms", ()), old.get("arms", ()), strict=True):
        assert {"label", "jobs", "succeeded", "failed", "repeats"} <= mine.keys()
        assert "cost_billable_seconds" in mine["numbers"], sorted(other["numbers"])
    for trial in new.get("trials", ()):
        assert {"compiler", "batch_size", "multiplier", "cost", "quality", "samples", "end"} <= trial.keys()


def test_reports_give_the_same_figures_and_jobs_and_endpoints_are_listed(whole: CommandLine) -> None:
    for name, (schema, figures) in OF_GROUP.items():
        assert_reported_as_before(whole, name, schema, figures)
    checked("overview", whole("report", {"experiment": "classes", "overview": "true", "format": "json"}).stdout)
    registered = whole("register", {"group": group_id(whole, "classes"), "format": "json"})
    assert registered.returncode == 0, registered.stderr
    assert checked("register", registered.stdout)["model"] == "models:/classes@champion"
    jobs = checked("jobs-list", whole.jobs("list", "--format", "json").stdout)["jobs"]
    names = {path.name for path in (whole.folder / "home" / "jobs").iterdir() if path.is_dir()}
    assert len(names) == 17
    assert {each["name"] for each in jobs} == names
    assert checked("jobs-stop", whole.jobs("stop", jobs[0]["name"], "--format", "json").stdout)["jobs"].keys() == {
        jobs[0]["name"]
    }
    assert checked("jobs-log", whole.jobs("log", jobs[0]["name"], "--format", "json").stdout)["lines"]
    assert checked("jobs-prune", whole.jobs("prune", "--older-than", "0h", "--format", "json").stdout)["deletable"]
    [listed] = checked("endpoints", whole("endpoints", {"format": "json"}).stdout)["endpoints"]
    assert listed["endpoint"] == "open-endpoint"
    assert listed["status"] == "Failed", "its server was killed"
    undeployed = whole("undeploy", {"endpoint": "open-endpoint", "format": "json"})
    assert checked("undeploy", undeployed.stdout)["deleted"] == ["open-endpoint"]
    assert "open-endpoint" not in whole("endpoints").stdout
    assert not (whole.folder / "home" / "endpoints" / "open-endpoint" / "current").exists()
