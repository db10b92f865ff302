"""The verb `report` as a user runs it, on tracked jobs of several groups."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from mlflow import MlflowClient

from tests.end_to_end.conftest import CommandLine, text
from tests.support.tracking.tracked import Tracked


@pytest.fixture
def two_groups(command_line: CommandLine, tmp_path: Path) -> Tracked:
    """Batch 16 in the group demo-1, and batch 32 on other data in demo-2."""
    client = MlflowClient(command_line.uri)
    place = (tmp_path / "artifacts").as_uri()
    tracked = Tracked(client, str(client.create_experiment("demo", artifact_location=place)))
    for group, seconds, size, data in (("demo-1", 100.0, 16, "abc123"), ("demo-2", 80.0, 32, "fff999")):
        tracked.group = group
        tags = {"platform.kind": "group", "platform.group": group, "platform.experiment": "demo"}
        tags |= {"platform.group_state": "closed", "platform.verb": "compare"}
        client.create_run(tracked.experiment_id, tags=tags)
        for repeat in range(3):
            tags = {"platform.compiler": "none", "platform.data_key": data}
            params = {"hp.batch_size": size}
            tracked.trained("none", repeat, seconds + repeat, params=params, tags=tags, baseline=True)
    return tracked


def page_of(done: CompletedProcess[str]) -> Path:
    """Return the path of the report that a command printed."""
    return Path(done.stdout.partition("Report: ")[2].partition("\nMLflow: ")[0])


def test_jobs_on_different_data_are_compared_if_allowed(command_line: CommandLine, two_groups: Tracked) -> None:
    refused = command_line("report", {"runs": "demo-1,demo-2"})
    assert refused.returncode == 0, refused.stderr
    assert "not comparable" in text(refused)
    assert "The data differs (abc123, fff999)." in text(refused)
    assert "--allow data" in text(refused)
    content = page_of(refused).read_text()
    done = command_line("report", {"runs": "demo-1,demo-2", "allow": "data"})
    assert "20 % fewer billable seconds than “batch 16, data abc123”" in done.stdout.replace("\n", " ")
    assert "Compared as requested, although the data differs (abc123, fff999)." in text(done)
    assert "Compared as requested" in page_of(done).read_text()
    assert page_of(refused).read_text() == content  # the report with other options has its own folder
    # Each report is logged to a separate run.
    _, run = command_line.runs("report")
    assert run.info.status == "FINISHED"
    assert run.data.tags["platform.report_of"] == "demo-1, demo-2"
    assert "cheaper" in run.data.tags["mlflow.note.content"]
    client = two_groups.client
    logged = {artifact.path for artifact in client.list_artifacts(run.info.run_id, "report")}
    assert {f"report/{name}" for name in ("report.html", "report.md", "jobs.csv", "summary.json", "plots")} == logged
    table = json.loads(Path(client.download_artifacts(run.info.run_id, "tables/comparison.json")).read_text())
    verdicts = [row[table["columns"].index("verdict")] for row in table["data"]]
    assert verdicts == ["baseline", "cheaper, quality not shown"]
    for group in command_line.runs("group"):
        assert "mlflow.note.content" not in group.data.tags


def test_the_report_of_an_experiment_updates_its_latest_group(command_line: CommandLine, two_groups: Tracked) -> None:
    done = command_line("report", {"experiment": "demo"})
    assert done.returncode == 0, done.stderr
    assert (command_line.folder / "home" / "reports" / "demo-2" / "report.html").exists()
    *_, latest = command_line.runs("group")
    assert "took 81.0 billable seconds" in latest.data.tags["mlflow.note.content"]


@pytest.mark.slow
def test_mlflow_run_logs_the_report_to_its_own_run(command_line: CommandLine, two_groups: Tracked) -> None:
    done = command_line.by_mlflow("report", {"experiment": "demo", "runs": "demo-1,demo-2", "allow": "data"})
    assert done.returncode == 0, done.stderr
    (run,) = command_line.runs("report")
    assert run.data.tags["mlflow.project.entryPoint"] == "report"
    assert any(each.path == "report" for each in two_groups.client.list_artifacts(run.info.run_id))
