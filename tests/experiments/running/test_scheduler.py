"""Groups of real local jobs, recorded in a real MLflow store: nothing is lost and nothing is repeated."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from experiments.running.scheduler import run_jobs
from tests.conftest import ROOT
from tests.support.services.following import ended
from tests.support.terminal import read_until, start_at_terminal
from tests.support.tracking.planned_jobs import planned
from tracking.groups.group import close_group, open_group
from tracking.queries.job_tables import tags_of
from tracking.server.store import open_store
from training.services.launcher import Job
from training.services.local.service import LocalService


def quiet(_: str) -> None:
    pass


def jobs_of(client: MlflowClient, group_id: str) -> list[Run]:
    ids = [e.experiment_id for e in client.search_experiments()]
    return client.search_runs(ids, f"tags.\"platform.group\" = '{group_id}' and tags.\"platform.kind\" = 'job'")


def test_a_job_is_recorded_as_a_run(tracking_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store, service = open_store(tracking_uri), LocalService(tmp_path / "home")
    group = open_group(store, experiment_name="demo", verb="train", key="k1")
    outcomes = run_jobs(store, service, group, [planned(tmp_path, "job-1")], echo=quiet)
    close_group(store, group, "FINISHED")
    assert [o.failure for o in outcomes] == [None]
    [run] = jobs_of(store.client, group.id)
    assert run.info.status == "FINISHED"
    assert run.data.tags["mlflow.parentRunId"] == group.run_id
    assert tags_of(run)["platform.cache_state"] == "off"
    assert run.data.params["hp.batch_size"] == "4"
    history = store.client.get_metric_history(run.info.run_id, "loss")
    assert [(m.step, m.value) for m in history] == [(s, 1 / s) for s in range(1, 6)]
    assert run.data.metrics["samples"] == 20
    assert run.data.metrics["eval_accuracy"] == 0.75
    assert run.info.run_name == "none, repeat 1"
    billable = run.data.metrics["cost/billable_seconds"]
    [final] = store.client.get_metric_history(run.info.run_id, "cost/billable_seconds")
    assert final.step == 0
    assert "cost/training_seconds" not in run.data.metrics
    assert run.data.metrics["throughput/end_to_end_samples_per_second"] == pytest.approx(20 / billable)
    files = {f.path for f in store.client.list_artifacts(run.info.run_id)}
    expected = {"experiment.yaml", "request.json", "environment.json", "events.jsonl", "log.txt", "description.json"}
    assert expected <= files
    events = Path(store.client.download_artifacts(run.info.run_id, "events.jsonl")).read_text().splitlines()
    assert [json.loads(line)["seq"] for line in events] == list(range(8))
    assert run.inputs.dataset_inputs[0].dataset.name == "data"
    assert "| accuracy | 0.7500 |" in run.data.tags["mlflow.note.content"]


def test_a_recorded_job_is_not_started_again(
    tracking_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second launcher finds the first job's outcome on the tracking server, and no job at the service."""
    monkeypatch.chdir(tmp_path)
    store, service = open_store(tracking_uri), LocalService(tmp_path / "home")
    jobs = [planned(tmp_path, f"job-{number}", repeat=number) for number in (1, 2)]
    group = open_group(store, experiment_name="demo", verb="train", key="k1")
    [first] = run_jobs(store, service, group, jobs[:1], echo=quiet)
    shutil.rmtree(tmp_path / "home" / "jobs" / "job-1")
    again = open_group(store, experiment_name="demo", verb="train", key="k1")
    outcomes = run_jobs(store, service, again, jobs, echo=quiet)
    assert [(outcome.planned.spec.name, outcome.failure) for outcome in outcomes] == [("job-1", None), ("job-2", None)]
    assert outcomes[0].run_id == first.run_id
    assert [path.name for path in (tmp_path / "home" / "jobs").iterdir() if path.is_dir()] == ["job-2"]
    assert len(jobs_of(store.client, group.id)) == 2


LAUNCHER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.support.tracking.planned_jobs import planned
from tracking.groups.group import close_group, open_group
from training.services.interruption import Detached
from experiments.running.scheduler import run_jobs
from tracking.server.store import open_store
from training.services.local.service import LocalService
folder = Path({folder!r})
store, service = open_store({uri!r}), LocalService(folder / "home")
group = open_group(store, experiment_name="demo", verb="train", key="k1")
print("group", group.id, flush=True)
steps = ({steps}, {others}, {others})
jobs = [planned(folder, f"{{group.id}}-{{n}}", repeat=n, steps=steps[n], pause=0.1) for n in range(3)]
try:
    outcomes = run_jobs(store, service, group, jobs, echo=lambda text: print(text, flush=True))
except Detached:
    print("detached", flush=True)
    sys.exit(130)
close_group(store, group, "FINISHED" if len(outcomes) == 3 else "KILLED")
print("done", len(outcomes), flush=True)
"""


def start_launcher(folder: Path, uri: str, steps: int = 60, others: int = 60) -> subprocess.Popen[str]:
    """Start a launcher of three jobs, the first of which has other steps of 0.1 s than the others."""
    code = LAUNCHER.format(root=str(ROOT), folder=str(folder), uri=uri, steps=steps, others=others)
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.gate
@pytest.mark.slow
def test_killed_launchers_lose_nothing_and_repeat_nothing(tracking_uri: str, tmp_path: Path) -> None:
    """The launcher is killed at five moments. The next launcher completes three jobs, with each point once."""
    for moment_seconds in (1.6, 2.2, 2.8, 3.1, 2.5):
        launcher = start_launcher(tmp_path, tracking_uri)
        time.sleep(moment_seconds)
        launcher.send_signal(signal.SIGKILL)
        output, _ = launcher.communicate()
        assert "done" not in output
    launcher = start_launcher(tmp_path, tracking_uri)
    output, _ = launcher.communicate(timeout=480)
    assert launcher.returncode == 0, output
    assert "done 3" in output
    client = MlflowClient(tracking_uri)
    groups = client.search_runs(
        [e.experiment_id for e in client.search_experiments()], "tags.\"platform.kind\" = 'group'"
    )
    [group] = groups
    assert group.info.status == "FINISHED"
    runs = jobs_of(client, group.data.tags["platform.group"])
    assert sorted(tags_of(run)["platform.repeat"] for run in runs) == ["0", "1", "2"]
    assert len(LocalService(tmp_path / "home").jobs()) == 3
    for run in runs:
        assert run.info.status == "FINISHED"
        for key in ("loss", "epoch", "samples"):
            history = client.get_metric_history(run.info.run_id, key)
            assert [m.step for m in history] == list(range(1, 61))
    assert (
        client.search_runs([e.experiment_id for e in client.search_experiments()], "attributes.status = 'RUNNING'")
        == []
    )


@pytest.mark.slow
def test_sigusr1_starts_no_more_jobs(tracking_uri: str, tmp_path: Path) -> None:
    launcher = start_launcher(tmp_path, tracking_uri, steps=20, others=1)
    assert launcher.stdout
    next(line for line in launcher.stdout if "started on" in line)
    launcher.send_signal(signal.SIGUSR1)
    output, _ = launcher.communicate(timeout=240)
    assert output.endswith("detached\n")
    [job] = LocalService(tmp_path / "home").jobs()
    assert job["TrainingJobStatus"] == "Completed"
    output, _ = start_launcher(tmp_path, tracking_uri, steps=20, others=1).communicate(timeout=240)
    assert "done 3" in output


@pytest.mark.parametrize(("answer", "status", "message"), [("s", "KILLED", "done 1"), ("l", "RUNNING", "detached")])
def test_ctrl_c_at_a_terminal_asks(tracking_uri: str, tmp_path: Path, answer: str, status: str, message: str) -> None:
    """Ctrl-C is typed at a pseudo-terminal; each answer stops the job or leaves it running."""
    steps = 3000 if answer == "s" else 60
    code = LAUNCHER.format(root=str(ROOT), folder=str(tmp_path), uri=tracking_uri, steps=steps, others=2)
    pid, terminal = start_at_terminal([sys.executable, "-c", code], tmp_path)
    read_until(terminal, "started on")
    os.write(terminal, b"\x03")
    read_until(terminal, "(Enter)?")
    os.write(terminal, f"{answer}\n".encode())
    shown = read_until(terminal, message)
    assert ("Stopping" in shown) == (answer == "s")
    os.waitpid(pid, 0)
    os.close(terminal)
    client = MlflowClient(tracking_uri)
    [run] = client.search_runs([e.experiment_id for e in client.search_experiments()], "tags.\"platform.kind\" = 'job'")
    assert run.info.status == status
    if answer == "l":
        job = Job(LocalService(tmp_path / "home"), run.data.tags["platform.job_name"])
        assert ended(job)[0]["TrainingJobStatus"] == "Completed"


@pytest.mark.usefixtures("every_core")
def test_parallel_jobs_overlap(tracking_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs of one core each overlap with parallel=2, and run in turn with parallel=1."""
    monkeypatch.chdir(tmp_path)
    store, service = open_store(tracking_uri), LocalService(tmp_path / "home")
    overlaps = []
    for parallel, steps in ((1, 2), (2, 6)):
        group = open_group(store, experiment_name="demo", verb="compare", key=f"p{parallel}")
        # Only the first job is long: the second one starts before its end, or not.
        jobs = [
            planned(tmp_path, f"p{parallel}-{n}", repeat=n, steps=steps if n == 0 else 2, pause=1.0) for n in range(2)
        ]
        outcomes = run_jobs(store, service, group, jobs, parallel=parallel, echo=quiet)
        assert [outcome.failure for outcome in outcomes] == [None, None]
        first, second = (service.describe(job.spec.name) for job in jobs)
        overlaps.append(second["TrainingStartTime"] < first["TrainingEndTime"])
    assert overlaps == [False, True]
